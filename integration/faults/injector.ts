// One run of the fault injector: an install, a workload, faults, quiet, and then every check.
import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serviceFolders, stateFolder } from "#services/cli/state/state-folder.ts";
import { commit, newRepository } from "#services/publisher/testing/repositories.ts";
import type { StepName } from "#shared/faults/steps.ts";
import { verifyChain } from "#shared/ledger/verify.ts";
import { LEASE_TTL_MS_DEFAULT } from "#shared/nats/setup.ts";
import type { Death, ProcessName } from "../testing/service-processes.ts";
import { missingWork } from "./checks/work.ts";
import { direct, type Fault } from "./director.ts";
import { type Disks, openDisks, sessionOf } from "./disks.ts";
import { keepEvidence } from "./evidence.ts";
import type { Done, FaultContext } from "./fault-kinds.ts";
import { type BrainDown, figuresOf, type RunFigures } from "./figures.ts";
import { violationsIn } from "./invariants.ts";
import { mirrorDifferences, type ReadMessage, readLedger, readModelDifferences } from "./ledger-reader.ts";
import type { Observed } from "./observed.ts";
import { readParked, wronglyParked } from "./parked.ts";
import { openQueues } from "./queues.ts";
import { openRandom } from "./random.ts";
import { openShortMemoryModel } from "./short-memory-model.ts";
import { type KnownDeath, openStage, type Stage } from "./stage.ts";
import { BRAINS, openStepPlan } from "./step-plan.ts";
import { openStrays } from "./strays.ts";
import type { Violation } from "./violation.ts";
import { startWorkload, type Workload } from "./workload.ts";

const SESSIONS = 5;
const STRIKES_AT_ONCE = 3;
const REATTACH_MS = 4_000;
/** The deletion of a sandbox whose request was lost is asked for again after 90 s, and that one may be lost as well. */
const QUIET_MS_MAX = 200_000;
const GO_ON_MS_MAX = 60_000;
const MIRROR_MS_MAX = 20_000;
const ROOT = join(import.meta.dirname, "..", "..");

export type RunOptions = Readonly<{
  seed: number;
  faults: number;
  /** Whether it goes on until every named step was reached. */
  allSteps: boolean;
  /** Random faults under way at once; 3 when absent. */
  strikesAtOnce?: number | undefined;
  /** Only faults of these kinds are drawn; of all when absent. */
  kinds?: readonly string[];
  /** Where to keep what a violation or a service that ended by itself leaves to look at; nowhere when absent. */
  evidence?: string | undefined;
  /** Says what happens, a line each. */
  say: (line: string) => void;
  /** Called after each fault with their number. */
  told?: (faults: number) => void;
}>;

export type RunResult = Readonly<{
  faults: readonly Fault[];
  steps: ReadonlySet<StepName>;
  violations: readonly Violation[];
  figures: RunFigures;
  /** Services that ended by themselves, at no step, be it before they served. */
  exits: readonly string[];
}>;

export async function run(options: RunOptions): Promise<RunResult> {
  const scene = await openScene(options);
  try {
    const stepsLeft = () => (options.allSteps ? scene.context.plan.leftOfAll() : 0);
    const { strikesAtOnce = STRIKES_AT_ONCE } = options;
    await direct({ ...scene.context, ...options, ...scene, stepsLeft, faultsMax: options.faults, strikesAtOnce });
    options.say(`${scene.faults.length} faults; now it becomes quiet`);
    return await judge(scene, options);
  } catch (error) {
    await keep(scene, options, [String(error)]).catch((failure: unknown) => options.say(`Nothing is kept: ${failure}`));
    throw error;
  } finally {
    await scene.close();
  }
}

type Scene = Readonly<{
  stage: Stage;
  workload: Workload;
  disks: Disks;
  context: FaultContext;
  faults: readonly Fault[];
  steps: ReadonlySet<StepName>;
  brainsDown: readonly BrainDown[];
  exits: readonly string[];
  /** What was wrong with the requests that a model got. */
  requestFaults: readonly string[];
  note: (done: Done) => void;
  pistisdReached: (name: StepName) => void;
  close: () => Promise<void>;
}>;

async function openScene({ seed, kinds = [], say, told = () => undefined }: RunOptions): Promise<Scene> {
  execFileSync(process.execPath, [join(ROOT, "infra", "build-pistisd.ts"), "--faults"], { stdio: "ignore" });
  const random = openRandom(seed);
  const plan = openStepPlan(random.branch());
  const book = openBook(say, told);
  const repository = await mkdtemp(join(tmpdir(), "pistis-faults-repository-"));
  commit(newRepository(repository), { "README.md": "A repository\n" });
  const onDeath = (death: Death, { reached, atMs }: KnownDeath) => {
    // Before it served as well: a service waits for a server that is away longer than any fault lasts.
    if (reached === undefined) return book.exit(death);
    if (death.name.startsWith("brain")) book.brainDown(death.name, atMs);
    book.note({ kind: `${death.name.replace(/-\d+$/, "")} at a step`, target: reached });
    plan.reached(reached);
  };
  const model = await openShortMemoryModel(random.branch());
  const stage = await openStage({
    config: { recovery: { reattachMs: REATTACH_MS }, sandboxes: { startMs: 15_000 }, models: model.config },
    brains: BRAINS.length,
    arm: plan.arm,
    onDeath,
  });
  const { install } = stage;
  const { sandboxes } = serviceFolders(stateFolder(install.statePath, {}, install.folder));
  const disks = openDisks(sandboxes, join(install.folder, "graveyard"));
  const context: FaultContext = {
    ...{ stage, plan, disks, leaseMs: LEASE_TTL_MS_DEFAULT, reattachMs: REATTACH_MS },
    ...{ random: random.branch(), strays: await openStrays(install, disks, random.branch()), kinds },
    queues: await openQueues(install, random.branch()),
    busy: new Set<ProcessName>(),
    brainDown: book.brainDown,
  };
  const workload = startWorkload({
    ...{ server: install.server, random: random.branch(), sessions: SESSIONS, repository, say },
    shortMemoryModel: model.name,
  });
  return {
    ...{ stage, workload, disks, context, ...book },
    steps: plan.hits,
    requestFaults: model.faults,
    pistisdReached: plan.reached,
    close: async () => {
      await disks.close().finally(stage.close);
      await model.close();
      await rm(repository, { recursive: true, force: true });
    },
  };
}

function openBook(say: (line: string) => void, told: (faults: number) => void) {
  const faults: Fault[] = [];
  const brainsDown: BrainDown[] = [];
  const exits: string[] = [];
  return {
    faults,
    brainsDown,
    exits,
    note: (done: Done) => {
      if (done === undefined) return;
      faults.push({ ...done, atMs: Date.now() });
      say(`${faults.length} ${done.kind}: ${done.target}`);
      told(faults.length);
    },
    brainDown: (brain: string, atMs = Date.now()) => void brainsDown.push({ brain, atMs }),
    exit: ({ name, exit, lastLines }: Death) => {
      exits.push(`${name} ended with ${exit.signal ?? exit.code}: ${lastLines.slice(-3).join(" | ")}`);
      say(exits.at(-1) ?? "");
    },
  };
}

async function judge(scene: Scene, options: RunOptions): Promise<RunResult> {
  const { stage, workload, context, faults, brainsDown, exits } = scene;
  const { say } = options;
  context.plan.end();
  // What is armed would still die, or stand still, at the first call that everything waits for.
  for (const service of context.plan.armedNow()) await stage.restart(service, 0);
  await stage.settled();
  say("every process serves");
  const restless = await workload.quieten(QUIET_MS_MAX).then(
    () => [],
    (error: Error) => [error.message],
  );
  say("at rest; every session goes on once more");
  const stuck =
    restless.length > 0 ? restless : [...(await workload.goOn(GO_ON_MS_MAX)), ...(await foldersLeft(scene))];
  say("quiet; reading ledger, mirror and disks");
  const ledger = await readLedger(stage.install);
  const messages = ledger.map(({ message }) => message);
  const broken = await verifyChain(messages);
  const observed = await observe(scene, ledger);
  const violations = [
    ...violationsIn(observed),
    ...missingWork(observed, { ...workload, faults: faults.length }),
    ...stuck.map((text) => ({ of: "rest" as const, session: "", text })),
    ...(broken === undefined ? [] : [{ of: "chain" as const, session: broken.session, text: broken.reason }]),
    ...(await mirrorAtRest(scene, ledger)).map((text) => ({ of: "mirror" as const, session: "", text })),
    ...scene.requestFaults.map((text) => ({ of: "I6" as const, session: "", text })),
    ...wronglyParked(await readParked(stage.install)),
  ];
  const figures = figuresOf(observed, brainsDown, stage.outages);
  await keep(scene, options, [...violations, ...exits]);
  return { faults, steps: scene.steps, violations, figures, exits };
}

/** What there is to look at; of the ledger and the marks as much as can be read, when something failed on the way. */
async function keep(scene: Scene, { evidence, say }: RunOptions, found: readonly unknown[]): Promise<void> {
  if (evidence === undefined || found.length === 0) return;
  const { stage, disks, faults } = scene;
  const ledger = await readLedger(stage.install).catch((error: unknown) => void say(`No ledger is kept: ${error}`));
  const processes = [...stage.services, "nats-server", "postgres"] as const;
  const marks = await disks.marks();
  await keepEvidence(evidence, { install: stage.install, processes, ledger: ledger ?? [], marks, faults, found });
  say(`what there is to look at is in ${evidence}`);
}

/** What is there of sandboxes whose session is over. */
async function foldersLeft({ disks, workload }: Scene): Promise<string[]> {
  const over = new Set(workload.mortal);
  const left = (await disks.sandboxes()).filter((sandboxId) => over.has(sessionOf(sandboxId)));
  return left.map((sandboxId) => `The folder of ${sandboxId} is there, and its session is over`);
}

async function observe({ disks, workload }: Scene, ledger: readonly ReadMessage[]): Promise<Observed> {
  const deleted = ledger.flatMap(({ message: { session, events } }) =>
    events.some(({ type }) => type === "SandboxDeleteRequested") ? [session] : [],
  );
  return {
    messages: ledger.map(({ message, storedAtMs }) => ({ ...message, storedAtMs })),
    marks: await disks.marks(),
    files: await disks.files(),
    withoutDisk: new Set(deleted),
    disksLost: await disks.lost(),
    accepted: workload.accepted,
    lastTurns: workload.lastTurns,
  };
}

/** The projector may need a moment for what was written last. */
async function mirrorAtRest({ stage }: Scene, ledger: readonly ReadMessage[]): Promise<string[]> {
  const giveUpAt = performance.now() + MIRROR_MS_MAX;
  for (;;) {
    const mirror = await mirrorDifferences(stage.install, ledger);
    const differences = [...mirror, ...(await readModelDifferences(stage.install))];
    if (differences.length === 0 || performance.now() > giveUpAt) return differences;
  }
}
