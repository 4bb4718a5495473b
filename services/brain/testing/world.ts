// A brain with everything around it in one process: a ledger in memory, sandboxes that are folders, and the few
// things that gateway, scheduler and publisher would write.

import { type PistisConfig, pistisConfig } from "#schemas/config/pistis-config.ts";
import type { EventOf, EventType, PistisEvent, Writer } from "#schemas/ledger/event.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { newId } from "#shared/ids/ids.ts";
import { type LedgerMessage, VersionConflict } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import type { OpenLink } from "#shared/sandbox-link/link.ts";
import { silentLog } from "#shared/service/log.ts";
import type { RunningService } from "#shared/service/service.ts";
import { startBrain } from "../brain.ts";
import { MemoryLeases } from "./memory-leases.ts";
import { SandboxPeer } from "./sandbox-peer.ts";

export type WorldOptions = Readonly<{
  config?: Parameters<typeof pistisConfig.parse>[0];
  /** False: nobody answers SandboxNeeded. */
  schedules?: boolean;
}>;

export class World {
  readonly ledger = memoryLedger();
  readonly leases = new MemoryLeases();
  readonly live: LiveMessage[] = [];
  readonly peers = new Map<string, SandboxPeer>();
  readonly config: PistisConfig;
  readonly #brains: RunningService[] = [];
  readonly #closing = new AbortController();
  readonly #scheduler: Promise<void>;

  constructor({ config = {}, schedules = true }: WorldOptions = {}) {
    this.config = pistisConfig.parse(config);
    this.#scheduler = schedules ? this.#schedule() : Promise.resolve();
  }

  async startBrain(brainName = "brain-a", openLink: OpenLink = this.openLink): Promise<RunningService> {
    const brain = await startBrain({
      ledger: this.ledger.open("brain"),
      feed: this.ledger.feed,
      leases: this.leases.open(brainName),
      openLink,
      live: { publish: (_session, message) => this.live.push(message) },
      config: this.config,
      openTurns: async () => this.openTurns(),
      brainName,
      log: silentLog,
    });
    this.#brains.push(brain);
    return brain;
  }

  readonly openLink: OpenLink = (request) => {
    const peer = this.peers.get(request.sandboxId);
    if (peer === undefined) throw new Error(`No sandbox ${request.sandboxId}`);
    return peer.openLink(request);
  };

  async createSession(data: Partial<EventOf<"SessionCreated">["data"]> = {}): Promise<string> {
    const session = newId("session");
    await this.append("gateway", session, {
      type: "SessionCreated",
      data: { title: "A test", model: "script", provider: "local", ...data },
    });
    return session;
  }

  async post(session: string, text: string, delivery: "steer" | "queue" = "steer"): Promise<string> {
    const messageId = newId("message");
    await this.append("gateway", session, { type: "MessagePosted", data: { messageId, text, delivery } });
    return messageId;
  }

  async interrupt(session: string): Promise<void> {
    const { turnId } = (await this.first(session, "TurnStarted", -1)).data;
    await this.append("gateway", session, { type: "InterruptRequested", data: { turnId } });
  }

  /** Appends as another service does: on whatever the session is at. */
  async append(writer: Writer, session: string, ...events: PistisEvent[]): Promise<LedgerMessage> {
    const ledger = this.ledger.open(writer);
    for (;;) {
      const { version } = await ledger.read(session);
      try {
        return await ledger.append(session, version, events, { correlationId: session, causationId: null });
      } catch (error) {
        if (!(error instanceof VersionConflict)) throw error;
      }
    }
  }

  async events(session: string): Promise<PistisEvent[]> {
    const { messages } = await this.ledger.open("brain").read(session);
    return messages.flatMap(({ events }) => events);
  }

  /** Waits for the `nth` event of the type (0: the first one); -1: the newest one that is there already. */
  async first<Type extends EventType>(session: string, type: Type, nth = 0): Promise<EventOf<Type>> {
    if (nth < 0) {
      const newest = (await this.events(session)).filter((event) => isOf(event, type)).at(-1);
      if (newest === undefined) throw new Error(`No ${type} in ${session}`);
      return newest;
    }
    let seen = 0;
    const stop = new AbortController();
    for await (const { events } of this.ledger.feed.follow({ after: 0, session, signal: stop.signal })) {
      for (const event of events) if (isOf(event, type) && seen++ === nth) return event;
    }
    throw new Error(`The feed ended before ${type}`);
  }

  async peerOf(session: string): Promise<SandboxPeer> {
    const { sandboxId } = (await this.first(session, "SandboxJoined")).data;
    const peer = this.peers.get(sandboxId);
    if (peer === undefined) throw new Error(`No peer ${sandboxId}`);
    return peer;
  }

  async joinSandbox(session: string, generation = 1): Promise<SandboxPeer> {
    const peer = await SandboxPeer.open(newId("sandbox"));
    this.peers.set(peer.sandboxId, peer);
    const { sandboxId, bootId } = peer;
    await this.append("scheduler", session, { type: "SandboxJoined", data: { sandboxId, generation, bootId } });
    return peer;
  }

  async close(): Promise<void> {
    await Promise.all(this.#brains.map((brain) => brain.close()));
    this.#closing.abort();
    await this.#scheduler;
    await Promise.all([...this.peers.values()].map((peer) => peer.close()));
  }

  /** Sessions whose newest turn is open, as the read model would say. */
  async openTurns(): Promise<string[]> {
    const open = new Set<string>();
    const stop = new AbortController();
    const sessions = await this.#sessions();
    for (const session of sessions) {
      for (const { type } of await this.events(session)) {
        if (type === "TurnStarted") open.add(session);
        if (type === "TurnEnded") open.delete(session);
      }
    }
    stop.abort();
    return [...open];
  }

  readonly #known = new Set<string>();

  async #sessions(): Promise<string[]> {
    return [...this.#known];
  }

  async #schedule(): Promise<void> {
    const { signal } = this.#closing;
    for await (const { session, events } of this.ledger.feed.follow({ after: 0, signal })) {
      this.#known.add(session);
      if (!events.some(({ type }) => type === "SandboxNeeded")) continue;
      const made = (await this.events(session)).filter(({ type }) => type === "SandboxJoined").length;
      await this.joinSandbox(session, made + 1);
    }
  }
}

function isOf<Type extends EventType>(event: PistisEvent, type: Type): event is EventOf<Type> {
  return event.type === type;
}
