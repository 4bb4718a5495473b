// The faults that happen at random moments, each with how often it is picked. A fault resolves when what it did is
// mended and the process serves again.
import { setTimeout as delay } from "node:timers/promises";
import { REACHED } from "#shared/faults/arm.ts";
import type { ProcessName } from "../testing/service-processes.ts";
import type { Disks } from "./disks.ts";
import { type Guest, guestsOf, signal } from "./guests.ts";
import type { Queues } from "./queues.ts";
import type { Random } from "./random.ts";
import type { Peer, ServiceName, Stage } from "./stage.ts";
import { BRAINS, FREE_BRAIN, type StepPlan, stepNames } from "./step-plan.ts";
import type { Strays } from "./strays.ts";

export type FaultContext = Readonly<{
  stage: Stage;
  plan: StepPlan;
  disks: Disks;
  strays: Strays;
  queues: Queues;
  random: Random;
  /** Only faults of these kinds are drawn; of all when it is empty. */
  kinds: readonly string[];
  leaseMs: number;
  reattachMs: number;
  /** Processes that a fault has in hand: no other touches them. */
  busy: Set<ProcessName>;
  /** A brain can do nothing from this moment on. */
  brainDown: (name: string) => void;
}>;

/** `undefined`: it could not be done now, and nothing was done. */
export type Done = Readonly<{ kind: string; target: string }> | undefined;
export type FaultKind = Readonly<{ weight: number; strike: (context: FaultContext) => Promise<Done> }>;

const REACH_MS_MAX = 4_000;
const LOOK_EVERY_MS = 20;

/** By name; weights are relative. */
export const FAULT_KINDS: Readonly<Record<string, FaultKind>> = {
  "kill brain": { weight: 6, strike: (context) => kill(context, context.random.pick(BRAINS)) },
  "kill relay": { weight: 4, strike: (context) => kill(context, "relay") },
  "kill nats-server": { weight: 3, strike: (context) => kill(context, "nats-server") },
  "kill postgres": { weight: 2, strike: (context) => kill(context, "postgres") },
  "kill gateway": { weight: 2, strike: (context) => kill(context, "gateway") },
  "kill scheduler": { weight: 2, strike: (context) => kill(context, "scheduler") },
  "kill publisher": { weight: 1, strike: (context) => kill(context, "publisher") },
  "kill projector": { weight: 2, strike: (context) => kill(context, "projector") },
  "kill provider": { weight: 2, strike: (context) => kill(context, "provider-local") },
  "stop brain": { weight: 4, strike: stopBrain },
  "stop brain at a step": { weight: 3, strike: stopBrainAtStep },
  "stop service": { weight: 4, strike: stopService },
  "stop server": { weight: 2, strike: stopServer },
  "cut network": { weight: 10, strike: cutNetwork },
  "kill pistisd": { weight: 5, strike: killPistisd },
  "stop pistisd": { weight: 3, strike: stopPistisd },
  "kill sandbox": { weight: 3, strike: killSandbox },
  "lose sandbox": { weight: 1, strike: loseSandbox },
  "lose a queue": { weight: 1, strike: loseQueue },
  "repeat a call": { weight: 3, strike: repeatCall },
  "send as a deposed brain": { weight: 3, strike: sendLate },
};

export async function strikeAtRandom(context: FaultContext): Promise<Done> {
  const { random, kinds: wanted } = context;
  const kinds = Object.entries(FAULT_KINDS).flatMap(([name, kind]) =>
    wanted.length === 0 || wanted.includes(name) ? [kind] : [],
  );
  let at = random.next() * kinds.reduce((sum, { weight }) => sum + weight, 0);
  for (const { weight, strike } of kinds) {
    at -= weight;
    if (at < 0) return strike(context);
  }
  return undefined;
}

/** Takes the process in hand, unless a fault has it or it does not run. */
async function holding({ stage, busy }: FaultContext, name: ProcessName, work: () => Promise<Done>): Promise<Done> {
  if (busy.has(name) || stage.install.state(name) !== "running") return undefined;
  busy.add(name);
  try {
    return await work();
  } finally {
    busy.delete(name);
  }
}

export function kill(context: FaultContext, name: ProcessName): Promise<Done> {
  return holding(context, name, async () => {
    if (name.startsWith("brain")) context.brainDown(name);
    await context.stage.restart(name, context.random.chance(0.5) ? 0 : context.random.between(50, 800));
    return { kind: `kill ${serviceOf(name)}`, target: name };
  });
}

async function stopped(context: FaultContext, name: ProcessName, forMs: number): Promise<Done> {
  return holding(context, name, async () => {
    const { install } = context.stage;
    if (name.startsWith("brain")) context.brainDown(name);
    const over = context.stage.outage(name);
    install.pause(name);
    await delay(forMs);
    install.resume(name);
    over();
    return { kind: `stop ${serviceOf(name)}`, target: name };
  });
}

/** Long enough that its lease is over and another brain owns its turns when it wakes up. */
function stopBrain(context: FaultContext): Promise<Done> {
  const { random, leaseMs } = context;
  return stopped(context, random.pick(BRAINS), leaseMs + random.between(800, 2_500));
}

function stopService(context: FaultContext): Promise<Done> {
  const { random } = context;
  const name = random.pick(["relay", "gateway", "scheduler", "publisher", "projector", "provider-local"] as const);
  return stopped(context, name, random.between(300, 3_000));
}

function stopServer(context: FaultContext): Promise<Done> {
  const { random } = context;
  return stopped(context, random.pick(["nats-server", "postgres"] as const), random.between(200, 2_000));
}

/** The brain stops itself between two effects, is deposed, and wakes up there. */
function stopBrainAtStep(context: FaultContext): Promise<Done> {
  return holding(context, FREE_BRAIN, async () => {
    const { stage, plan, random, leaseMs } = context;
    // Around a call's sending a brain that wakes up can do the most harm.
    const prefix = random.chance(0.5) ? "brain.call." : "brain.";
    const step = random.pick(stepNames().filter((name) => name.startsWith(prefix)));
    plan.force(FREE_BRAIN, `${step}:${random.between(1, 3)}:stop`);
    context.brainDown(FREE_BRAIN);
    await stage.restart(FREE_BRAIN, 0);
    const giveUpAt = performance.now() + REACH_MS_MAX;
    while (!stage.install.lastLines(FREE_BRAIN).includes(`${REACHED} ${step}`)) {
      if (performance.now() > giveUpAt) {
        // It would stop itself later, when nobody wakes it up.
        await stage.restart(FREE_BRAIN, 0);
        return { kind: "kill brain", target: FREE_BRAIN };
      }
      await delay(LOOK_EVERY_MS);
    }
    context.brainDown(FREE_BRAIN);
    const over = stage.outage(FREE_BRAIN);
    await delay(leaseMs + random.between(800, 2_000));
    if (stage.install.state(FREE_BRAIN) !== "ended") stage.install.resume(FREE_BRAIN);
    over();
    return { kind: "stop brain at a step", target: step };
  });
}

async function cutNetwork({ stage, random, leaseMs }: FaultContext): Promise<Done> {
  const service = random.pick(stage.services);
  const own = [...(stage.cuts.get(service) ?? [])];
  if (own.length === 0) return undefined;
  const [peer, cut] = random.pick<(typeof own)[number]>(own);
  const how = random.chance(0.5) ? "drop" : "freeze";
  const over = stage.outage(service);
  if (how === "drop") cut.drop();
  else cut.freeze();
  await delay(cutMs(random, service, peer, leaseMs));
  cut.mend();
  over();
  return { kind: `${how} ${serviceOf(service)}-${peer}`, target: service };
}

/** A brain's way to NATS is sometimes cut for longer than its leases last. */
function cutMs(random: Random, service: ServiceName, peer: Peer, leaseMs: number): number {
  if (service.startsWith("brain") && peer === "nats" && random.chance(0.4)) return leaseMs + random.between(500, 2_000);
  return random.between(100, 3_000);
}

/** One of the sandboxes that run now. */
function pickGuest({ stage, busy, random }: FaultContext): Guest | undefined {
  if (busy.has("provider-local") || stage.install.state("provider-local") !== "running") return undefined;
  const guests = guestsOf(stage.install.pid("provider-local"));
  return guests.length === 0 ? undefined : random.pick(guests);
}

async function killPistisd(context: FaultContext): Promise<Done> {
  const guest = pickGuest(context);
  if (guest === undefined) return undefined;
  signal(guest.pistisd, "SIGKILL");
  return { kind: "kill pistisd", target: guest.sandboxId };
}

async function stopPistisd(context: FaultContext): Promise<Done> {
  const { random, reattachMs } = context;
  const guest = pickGuest(context);
  if (guest === undefined) return undefined;
  signal(guest.pistisd, "SIGSTOP");
  await delay(random.chance(0.5) ? random.between(200, 2_500) : reattachMs + random.between(500, 3_000));
  signal(guest.pistisd, "SIGCONT");
  return { kind: "stop pistisd", target: guest.sandboxId };
}

/** Every sandbox hangs for longer than a brain waits for one. */
export async function stopAllPistisd({ stage, reattachMs }: FaultContext): Promise<Done> {
  if (stage.install.state("provider-local") !== "running") return undefined;
  const guests = guestsOf(stage.install.pid("provider-local"));
  for (const { pistisd } of guests) signal(pistisd, "SIGSTOP");
  await delay(reattachMs + 2_000);
  for (const { pistisd } of guests) signal(pistisd, "SIGCONT");
  return { kind: "stop pistisd", target: "all sandboxes" };
}

export async function killSandbox(context: FaultContext): Promise<Done> {
  const guest = pickGuest(context);
  if (guest === undefined) return undefined;
  signal(guest.init, "SIGKILL");
  return { kind: "kill sandbox", target: guest.sandboxId };
}

/** Its disk is gone when the provider comes back: only then may a new one take its place. */
async function loseSandbox(context: FaultContext): Promise<Done> {
  const guest = pickGuest(context);
  if (guest === undefined) return undefined;
  return holding(context, "provider-local", async () => {
    const { stage, disks } = context;
    await stage.install.kill("provider-local");
    await disks.lose(guest.sandboxId);
    await stage.restart("provider-local", 0);
    return { kind: "lose sandbox", target: guest.sandboxId };
  });
}

export async function loseQueue({ queues }: FaultContext): Promise<Done> {
  const lost = await queues.lose();
  return lost === undefined ? undefined : { kind: "lose a queue", target: lost };
}

async function repeatCall(context: FaultContext): Promise<Done> {
  const guest = pickGuest(context);
  if (guest === undefined || !(await context.strays.again(guest.sandboxId))) return undefined;
  return { kind: "repeat a call", target: guest.sandboxId };
}

async function sendLate(context: FaultContext): Promise<Done> {
  const guest = pickGuest(context);
  if (guest === undefined || !(await context.strays.late(guest.sandboxId))) return undefined;
  return { kind: "send as a deposed brain", target: guest.sandboxId };
}

export function serviceOf(name: ProcessName): string {
  return name.replace(/-(\d+|local|server)$/, (end) => (end === "-server" ? end : ""));
}
