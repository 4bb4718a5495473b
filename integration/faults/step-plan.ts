// Which step each service is armed with when it starts: all its steps in turn, each until it was reached once.
import { isStepName, STEPS, type StepName } from "#shared/faults/steps.ts";
import type { Random } from "./random.ts";
import type { ServiceName } from "./stage.ts";

export type StepPlan = Readonly<{
  /** What the service is to be armed with at this start. */
  arm: (service: ServiceName) => string | undefined;
  /** A process ended at this step. */
  reached: (name: string) => void;
  /** From now on this service goes through its steps. */
  activate: (service: ServiceName) => void;
  /** For one start only, ahead of the plan. */
  force: (service: ServiceName, armed: string) => void;
  /** Puts the step that is armed now behind the others. */
  postpone: (service: ServiceName) => void;
  /** What the service is armed with, if it was not forced. */
  armed: (service: ServiceName) => StepName | undefined;
  left: (service: ServiceName) => number;
  /** pistisd's included. */
  leftOfAll: () => number;
  /** No step is armed any more at later starts. */
  end: () => void;
  /** Services that were armed at their last start, by the plan or by force. */
  armedNow: () => readonly ServiceName[];
  hits: ReadonlySet<StepName>;
}>;

/** pistisd is armed by a file; it has steps of its own. */
export const PISTISD_STEPS = stepNames().filter((name) => name.startsWith("pistisd."));

/** The brains that share the brain's steps. */
export const ARMED_BRAINS = ["brain-1", "brain-2"] as const;
/** Never armed by the plan: it takes over, or is killed so that the others do. */
export const FREE_BRAIN = "brain-3";
export const BRAINS = [...ARMED_BRAINS, FREE_BRAIN] as const;

/** They react to the ledger through the same feed. */
const FEEDS = [...ARMED_BRAINS, "scheduler", "publisher"] as const;

export function openStepPlan(random: Random): StepPlan {
  const waiting = new Map<ServiceName, StepName[]>();
  for (const [index, name] of random.shuffled(stepNames()).entries()) {
    const service = serviceOf(name, index);
    if (service !== undefined) waiting.set(service, [...(waiting.get(service) ?? []), name]);
  }
  const active = new Set<ServiceName>();
  const forced = new Map<ServiceName, string>();
  const armedNow = new Set<ServiceName>();
  const hits = new Set<StepName>();
  const armedOf = (service: ServiceName) => (active.has(service) ? waiting.get(service)?.[0] : undefined);
  return {
    arm: (service) => {
      const armed = forced.get(service) ?? armedOf(service);
      forced.delete(service);
      if (armed === undefined) armedNow.delete(service);
      else armedNow.add(service);
      return armed;
    },
    reached: (name) => {
      hits.add(isStepName(name) ? name : unknown(name));
      for (const [service, names] of waiting) {
        const left = names.filter((waitingName) => waitingName !== name);
        waiting.set(service, left);
      }
    },
    activate: (service) => void active.add(service),
    force: (service, armed) => void forced.set(service, armed),
    postpone: (service) => {
      const [first, ...rest] = waiting.get(service) ?? [];
      if (first !== undefined) waiting.set(service, [...rest, first]);
    },
    armed: armedOf,
    left: (service) => waiting.get(service)?.length ?? 0,
    leftOfAll: () => stepNames().length - hits.size,
    end: () => {
      active.clear();
      forced.clear();
    },
    armedNow: () => [...armedNow],
    hits,
  };
}

export function stepNames(): StepName[] {
  return Object.keys(STEPS).filter(isStepName);
}

function serviceOf(name: StepName, index: number): ServiceName | undefined {
  const [service = ""] = name.split(".");
  if (service === "pistisd") return undefined;
  if (service === "brain") return ARMED_BRAINS[index % ARMED_BRAINS.length];
  if (service === "provider") return "provider-local";
  if (name === "feed.window.handled") return "projector";
  if (service === "feed") return FEEDS[index % FEEDS.length];
  if (service === "relay" || service === "scheduler" || service === "projector") return service;
  if (service === "publisher" || service === "gateway") return service;
  return unknown(name);
}

function unknown(name: string): never {
  throw new Error(`${name} is no step that the injector knows`);
}
