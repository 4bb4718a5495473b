// A brain that holds a session's lease works here: it starts or takes over the turn, runs it, and goes on while
// messages wait. What others write about the session is folded within milliseconds, which is how Stop is heard.
import { setTimeout as delay } from "node:timers/promises";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { step } from "#shared/faults/step.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerFeed } from "#shared/ledger/ledger.ts";
import type { LivePublisher } from "#shared/live/live.ts";
import type { OpenLink } from "#shared/sandbox-link/link.ts";
import type { Log } from "#shared/service/log.ts";
import { failedModel } from "../models/failed-model.ts";
import type { Model, Models } from "../models/model.ts";
import { REPOSITORY_FOLDER, WORKSPACE } from "../prompt/system-prompt.ts";
import { attention, isStopping } from "../session/questions.ts";
import { Overtaken, type SessionRecord } from "../session/record.ts";
import type { Session } from "../session/session.ts";
import { openToolbox, type Toolbox } from "../tools/toolbox.ts";
import { Abandoned, type TurnContext, working } from "./context.ts";
import { openTurnLive } from "./live.ts";
import { type Begun, runTurn } from "./turn.ts";
import type { WarmLinks } from "./warm-links.ts";
import { Workplace } from "./workplace.ts";

export type TurnDependencies = Readonly<{
  feed: LedgerFeed;
  openLink: OpenLink;
  live: LivePublisher;
  models: Models;
  tools: Toolboxes;
  warmLinks: WarmLinks;
  config: PistisConfig;
  /** Unique to this process. */
  brain: string;
  log: Log;
}>;

/** Built once: making the tools' JSON Schemas takes longer than a turn's first append. */
export type Toolboxes = Readonly<Record<typeof WORKSPACE | typeof REPOSITORY_FOLDER, Toolbox>>;

export function openToolboxes({ limits }: Pick<PistisConfig, "limits">): Toolboxes {
  return {
    [WORKSPACE]: openToolbox(limits, WORKSPACE),
    [REPOSITORY_FOLDER]: openToolbox(limits, REPOSITORY_FOLDER),
  };
}

const FOLLOW_AGAIN_MS = 500;
/**
 * Opening a feed costs the bus more than a short turn does. A Stop within this time is heard when it ends, or
 * earlier, by the conflict that it makes of the turn's next append.
 */
const FOLLOW_AFTER_MS = 20;

/**
 * Works on the session until nothing is left to do. `abandon` aborts when the lease is lost or the brain stops.
 * `onTurn` is called once a turn is in the ledger and this brain owns it.
 */
export async function workOn(
  dependencies: TurnDependencies,
  record: SessionRecord,
  { abandon, onTurn }: { abandon: AbortSignal; onTurn: () => void },
): Promise<void> {
  const following = new AbortController();
  const follow = followSession(dependencies, record, following.signal);
  try {
    let looksAhead = true;
    while (!abandon.aborted) {
      const begun = await claim(dependencies, record, looksAhead);
      if (begun === undefined) return;
      begun.stored.then(onTurn, () => undefined);
      looksAhead = await turn(dependencies, record, { begun, abandon }).then(() => true, unlessOvertaken);
    }
  } finally {
    following.abort();
    await follow;
  }
}

/** The turn that was foreseen does not exist. The next one is stored first, so that no two requests are for nothing. */
function unlessOvertaken(error: unknown): false {
  if (error instanceof Overtaken) return false;
  throw error;
}

/** Starts what waits, or takes over what is open. Nothing when the session wants nothing of a brain. */
async function claim(
  { brain }: TurnDependencies,
  record: SessionRecord,
  looksAhead: boolean,
): Promise<Begun | undefined> {
  for (;;) {
    const what = attention(record.state);
    if (what === "none") return undefined;
    if (what === "start-turn" && looksAhead) return startAhead(record, brain);
    if (what === "end-session") await record.commit({ type: "EndSession" });
    if (what === "start-turn") await startAhead(record, brain).stored.catch(unlessOvertaken);
    if (what === "go-on") await takeOver(record, brain);
    const { state } = record;
    if (state.status === "working" && state.turn.brain === brain) {
      return { state, stored: Promise.resolve(), isNew: what === "start-turn" };
    }
  }
}

/** The model is asked while TurnStarted is being stored. Everything else of the turn waits for that. */
function startAhead(record: SessionRecord, brain: string): Begun {
  step("brain.turn.starting");
  const start = { type: "StartTurn", turnId: newId("turn"), brain } as const;
  const { ahead, stored } = record.commitAhead(start, { orNotAtAll: true });
  const begun = stored.then(() => step("brain.turn.started"));
  begun.catch(() => undefined);
  return { state: working(ahead), stored: begun, isNew: true };
}

async function takeOver(record: SessionRecord, brain: string): Promise<void> {
  step("brain.take-over.starting");
  await record.commit({ type: "TakeOverTurn", brain });
  step("brain.take-over.stored");
}

async function turn(
  dependencies: TurnDependencies,
  record: SessionRecord,
  { begun, abandon }: { begun: Begun; abandon: AbortSignal },
): Promise<void> {
  const { openLink, config, log } = dependencies;
  const { epoch } = begun.state.turn;
  const deposed = new AbortController();
  const halt = new AbortController();
  const unwatch = record.watch((state) => signal(state, { epoch, deposed, halt }));
  signal(record.state, { epoch, deposed, halt });
  const signals = { abandon: AbortSignal.any([abandon, deposed.signal]), halt: halt.signal };
  const live = openTurnLive(dependencies.live, record.session, epoch);
  const over = new AbortController();
  const workplace = new Workplace({
    record,
    epoch,
    openLink,
    config,
    warm: dependencies.warmLinks.take(record.session),
    signal: AbortSignal.any([signals.abandon, halt.signal, over.signal]),
    onWait: (what, text) => live.progress(what, text),
    onNotRaised: (error) => log.warn({ session: record.session, err: error }, "the sandbox did not take the epoch"),
    onLeftover: (callId, error) => log.warn({ session: record.session, callId, err: error }, "a call was not stopped"),
  });
  const tools = dependencies.tools[begun.state.repository === undefined ? WORKSPACE : REPOSITORY_FOLDER];
  const model = await modelOf(dependencies.models, begun.state.model);
  const context: TurnContext = { record, epoch, model, tools, workplace, live, config, log, signals };
  try {
    await runTurn(context, begun);
  } finally {
    unwatch();
    over.abort(new Abandoned("The turn is over"));
    const warm = await workplace.close(record.state.status === "idle" && !signals.abandon.aborted);
    if (warm !== undefined) dependencies.warmLinks.keep(record.session, warm);
  }
}

/** A model that cannot be had fails the turn at its first request, like every failure of a model. */
async function modelOf(models: Models, name: string): Promise<Model> {
  return models.get(name).catch((error: unknown) => failedModel(name, error));
}

type Heard = { epoch: number; deposed: AbortController; halt: AbortController };

function signal(state: Session, { epoch, deposed, halt }: Heard): void {
  if (state.status !== "working") return;
  if (state.turn.epoch !== epoch) deposed.abort(new Abandoned("Another brain took the turn over"));
  else if (isStopping(state) && !halt.signal.aborted) halt.abort(new Abandoned("The user pressed Stop"));
}

async function followSession(
  { feed, log }: TurnDependencies,
  record: SessionRecord,
  signal: AbortSignal,
): Promise<void> {
  const { session } = record;
  await delay(FOLLOW_AFTER_MS, undefined, { signal }).catch(() => undefined);
  while (!signal.aborted) {
    try {
      for await (const message of feed.follow({ after: record.sequence, session, signal })) {
        if (!record.absorb([message])) await record.catchUp();
      }
    } catch (error) {
      if (signal.aborted) return;
      // Nothing is lost meanwhile: what others wrote shows as a conflict at the next append.
      log.warn({ session, err: error }, "following the session failed and is tried again");
      await delay(FOLLOW_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
