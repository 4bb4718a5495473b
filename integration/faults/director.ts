// Makes faults happen until there were enough of them: at random moments, and at every named step in turn.
import { rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { StepName } from "#shared/faults/steps.ts";
import {
  type Done,
  type FaultContext,
  kill,
  killSandbox,
  loseQueue,
  stopAllPistisd,
  strikeAtRandom,
} from "./fault-kinds.ts";
import type { ServiceName } from "./stage.ts";
import { ARMED_BRAINS, BRAINS, FREE_BRAIN, PISTISD_STEPS } from "./step-plan.ts";
import type { Workload } from "./workload.ts";

export type Fault = Readonly<{ kind: string; target: string; atMs: number }>;

export type Directing = FaultContext &
  Readonly<{
    workload: Workload;
    faults: readonly Fault[];
    note: (done: Done) => void;
    /** Faults that the named steps will still be. */
    stepsLeft: () => number;
    /** pistisd ended at this step. */
    pistisdReached: (name: StepName) => void;
    faultsMax: number;
    /** So many faults at random moments are under way at once. */
    strikesAtOnce: number;
    /** Whether every step has to be reached before it ends. */
    allSteps: boolean;
  }>;

/** So many services go through their steps at once: each death costs a start of a process. */
const ARMED_MAX = 3;
const PROVOKE_EVERY_MS = 700;
const STEP_MS_MAX = 20_000;
const LOOK_EVERY_MS = 50;
const GAP_MS_MAX = 250;
const DELETION_MS_MAX = 200;

const SERVICES: readonly ServiceName[] = [
  ...ARMED_BRAINS,
  "scheduler",
  "relay",
  "provider-local",
  "publisher",
  "gateway",
  "projector",
];

export async function direct(directing: Directing): Promise<void> {
  const steps = directing.allSteps ? [throughSteps(directing), throughPistisdSteps(directing)] : [];
  const allSteps = Promise.all(steps);
  let done = false;
  const finished = allSteps.finally(() => {
    done = true;
  });
  const isOver = () => done && directing.faults.length >= directing.faultsMax;
  const strikes = Array.from({ length: directing.strikesAtOnce }, () => strikeUntil(directing, isOver));
  await Promise.all([finished, ...strikes]);
}

/** Leaves room for the steps that were not reached yet. */
async function strikeUntil(directing: Directing, isOver: () => boolean): Promise<void> {
  const { random, faults, faultsMax, note, stepsLeft } = directing;
  while (!isOver()) {
    const mayStrike = faults.length + stepsLeft() < faultsMax;
    if (mayStrike) note(await strikeAtRandom(directing));
    await delay(mayStrike ? random.between(0, GAP_MS_MAX) : LOOK_EVERY_MS);
  }
}

async function throughSteps(directing: Directing): Promise<void> {
  // The brains have the most steps, so they come first.
  const waiting = [...SERVICES];
  const walk = async () => {
    for (let service = waiting.shift(); service !== undefined; service = waiting.shift()) {
      await throughStepsOf(directing, service);
    }
  };
  await Promise.all(Array.from({ length: ARMED_MAX }, walk));
}

async function throughStepsOf(directing: Directing, service: ServiceName): Promise<void> {
  const { plan } = directing;
  plan.activate(service);
  await killOnce(directing, service);
  while (plan.left(service) > 0) {
    const step = plan.armed(service);
    if (step === undefined) return;
    if (await reachedInTime(directing, service, step)) continue;
    plan.postpone(service);
    await killOnce(directing, service);
  }
}

/** So that it starts again, armed. */
async function killOnce(directing: Directing, service: ServiceName): Promise<void> {
  for (let done: Done; done === undefined; ) {
    done = await kill(directing, service);
    directing.note(done);
    if (done === undefined) await delay(LOOK_EVERY_MS);
  }
}

async function reachedInTime(directing: Directing, service: ServiceName, step: StepName): Promise<boolean> {
  const startedAt = performance.now();
  let provokedAt = startedAt;
  while (directing.plan.armed(service) === step) {
    const now = performance.now();
    if (now - startedAt > STEP_MS_MAX) return false;
    if (now - provokedAt > PROVOKE_EVERY_MS) {
      await provoke(directing, step, service);
      provokedAt = performance.now();
    }
    await delay(LOOK_EVERY_MS);
  }
  return true;
}

/** Makes happen what leads to steps that the daily run of things does not come by. */
async function provoke(directing: Directing, step: StepName, service?: ServiceName): Promise<void> {
  const { note, workload, random } = directing;
  if (/^brain\.(take-over|recovery)\./.test(step)) {
    note(await kill(directing, random.pick(BRAINS.filter((brain) => brain !== service))));
  }
  if (/^brain\.sandbox\.ask/.test(step)) note(await killSandbox(directing));
  if (step === "scheduler.queue.renewing") note(await loseQueue(directing));
  if (step === "brain.sandbox.doubting") note(await stopAllPistisd(directing));
  if (/^brain\.(stop|turn\.end)/.test(step)) await workload.stopSomething();
  if (step === "pistisd.join.traded") note(await killSandbox(directing));
  if (/^pistisd\.call\.barr/.test(step)) {
    directing.plan.force(FREE_BRAIN, "brain.call.sending");
    note(await kill(directing, FREE_BRAIN));
  }
}

async function throughPistisdSteps(directing: Directing): Promise<void> {
  const waiting = directing.random.shuffled(PISTISD_STEPS);
  for (let step = waiting.shift(); step !== undefined; step = waiting.shift()) {
    if (!(await atPistisdStep(directing, step))) waiting.push(step);
  }
}

/** Arms all sandboxes; the first daemon that comes by dies there, the others are disarmed. */
async function atPistisdStep(directing: Directing, step: StepName): Promise<boolean> {
  const { disks, note } = directing;
  const startedAt = performance.now();
  let provokedAt = startedAt;
  const armed = new Map<string, Folder>();
  try {
    while (performance.now() - startedAt < STEP_MS_MAX) {
      for (const sandboxId of await disks.sandboxes()) await arm(disks.pistisdFolder(sandboxId), step, armed);
      await delay(LOOK_EVERY_MS);
      for (const [path, folder] of armed) {
        const became = await whatBecameOf(path, folder);
        if (became === "waits") continue;
        armed.delete(path);
        if (became === "gone") continue;
        note({ kind: "pistisd at a step", target: step });
        directing.pistisdReached(step);
        return true;
      }
      if (performance.now() - provokedAt < PROVOKE_EVERY_MS) continue;
      await provoke(directing, step);
      provokedAt = performance.now();
    }
    return false;
  } finally {
    for (const path of armed.keys()) await rm(path, { force: true });
  }
}

/** Tells a folder from another one that took its place. */
type Folder = Readonly<{ inode: bigint; bornAtNs: bigint }>;

async function arm(folder: string, step: StepName, armed: Map<string, Folder>): Promise<void> {
  const path = join(folder, "fault-step");
  if (armed.has(path)) return;
  try {
    const now = await folderAt(folder);
    await writeFile(path, step, { flag: "wx", mode: 0o644 });
    if (now !== undefined) armed.set(path, now);
  } catch (error) {
    // The sandbox was deleted just now, or is not whole yet.
    if (!(error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "EEXIST")))
      throw error;
  }
}

/** The daemon removes the file when it dies there. With the folder gone or another one, the sandbox was deleted or lost. */
export async function whatBecameOf(path: string, { inode, bornAtNs }: Folder): Promise<"fired" | "gone" | "waits"> {
  const hasFile = await isThere(path);
  // A deletion that has come to the file comes to its folder soon.
  if (!hasFile) await delay(DELETION_MS_MAX);
  const now = await folderAt(join(path, ".."));
  if (now?.inode !== inode || now.bornAtNs !== bornAtNs) return "gone";
  return hasFile ? "waits" : "fired";
}

export async function folderAt(path: string): Promise<Folder | undefined> {
  return stat(path, { bigint: true }).then(
    ({ ino, birthtimeNs }) => ({ inode: ino, bornAtNs: birthtimeNs }),
    () => undefined,
  );
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
