// Every event there is: who may write it, its newest version, and the readers of every version ever written.
// The newest form is the only one in code; an older one is lifted when it is read (versions/).
import { type BrainEvent, brainEvents } from "./events/brain.ts";
import { type GatewayEvent, gatewayEvents } from "./events/gateway.ts";
import { type PublisherEvent, publisherEvents } from "./events/publisher.ts";
import { type SchedulerEvent, schedulerEvents } from "./events/scheduler.ts";

export type PistisEvent = GatewayEvent | BrainEvent | SchedulerEvent | PublisherEvent;
export type EventType = PistisEvent["type"];
export type EventOf<Type extends EventType> = Extract<PistisEvent, { type: Type }>;
export type Writer = "gateway" | "brain" | "scheduler" | "publisher";

export const catalogue = { ...gatewayEvents, ...brainEvents, ...schedulerEvents, ...publisherEvents } as const;

/** An event as it stands in a ledger message. */
export type StoredEvent = { type: string; version: number; data: unknown };

export class UnknownEvent extends Error {
  override readonly name = "UnknownEvent";
}

export function isEventType(type: string): type is EventType {
  return Object.hasOwn(catalogue, type);
}

export function writerOf(type: EventType): Writer {
  return catalogue[type].writer;
}

/** The stored form of an event, validated: what is invalid is never written. */
export function storedEvent(event: PistisEvent): StoredEvent {
  const { version, schema } = catalogue[event.type];
  return { type: event.type, version, data: schema.parse(event.data) };
}

/** Reads any version ever written. Throws UnknownEvent for a type or version nobody wrote: the message is parked. */
export function readEvent(stored: StoredEvent): PistisEvent {
  if (!isEventType(stored.type)) throw new UnknownEvent(`No event type ${stored.type}`);
  const entry = catalogue[stored.type];
  const older: { [version: number]: (data: unknown) => unknown } = entry.older;
  if (stored.version === entry.version)
    return { type: stored.type, data: entry.schema.parse(stored.data) } as PistisEvent;
  const lift = older[stored.version];
  if (lift === undefined) throw new UnknownEvent(`No reader for ${stored.type} version ${stored.version}`);
  return { type: stored.type, data: entry.schema.parse(lift(stored.data)) } as PistisEvent;
}
