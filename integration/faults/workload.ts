// What goes on in the install while faults happen: sessions with turn after turn of the script model, each with reads
// side by side, commands that leave marks, files, background commands, messages in between, Stop and ends of sessions.
import { setTimeout as delay } from "node:timers/promises";
import {
  createSession,
  endSession,
  getSession,
  interruptTurn,
  postMessage,
  type Server,
} from "#services/cli/client/api.ts";
import { newId } from "#shared/ids/ids.ts";
import { insist } from "./insist.ts";
import { type LastTurn, markCommand } from "./observed.ts";
import type { Random } from "./random.ts";
import { goOnOnce, untilAtRest } from "./rest.ts";

const LOOK_EVERY_MS = 150;
/** Of the lasting sessions; the others have none. */
const WITH_REPOSITORY = 2;

export type Workload = Readonly<{
  /** Sessions that live through the whole run, and how many there should be. */
  lastingWanted: number;
  lasting: readonly string[];
  /** Sessions that are ended, one after the other. */
  mortal: readonly string[];
  accepted: readonly Readonly<{ session: string; messageId: string }>[];
  /** Presses Stop in one of the sessions while a long command runs. */
  stopSomething: () => Promise<void>;
  /** Posts no more; resolves when every session is idle, or over with its sandbox, rejects with those that are not. */
  quieten: (withinMs: number) => Promise<void>;
  /** One more message for each session that is open. Resolves with those that did not complete their turn. */
  goOn: (withinMs: number) => Promise<string[]>;
  /** The turns that `goOn` asked for. */
  lastTurns: readonly LastTurn[];
}>;

export type WorkloadOptions = Readonly<{
  server: Server;
  random: Random;
  sessions: number;
  /** A model whose window is small, so that its session's history is made shorter again and again. */
  shortMemoryModel: string;
  say: (line: string) => void;
  /** For the sessions that are opened and ended again and again, and for some of the lasting ones. */
  repository: string;
}>;

type Working = WorkloadOptions & {
  stopping: AbortController;
  accepted: { session: string; messageId: string }[];
  lasting: string[];
  /** Of the lasting sessions the one whose model does as it likes. */
  forgetful: string | undefined;
  mortal: string[];
  lastTurns: LastTurn[];
  marks: number;
};

export function startWorkload(options: WorkloadOptions): Workload {
  const working: Working = {
    ...options,
    stopping: new AbortController(),
    accepted: [],
    lasting: [],
    forgetful: undefined,
    mortal: [],
    lastTurns: [],
    marks: 0,
  };
  const loops = [
    ...Array.from({ length: options.sessions }, (_, index) =>
      lastingSession(working, options.random.branch(), index < WITH_REPOSITORY),
    ),
    forgetfulSession(working, options.random.branch()),
    mortalSessions(working, options.random.branch()),
  ];
  const over = Promise.all(loops);
  return {
    lastingWanted: options.sessions + 1,
    lasting: working.lasting,
    mortal: working.mortal,
    lastTurns: working.lastTurns,
    accepted: working.accepted,
    stopSomething: () => stopSomething(working),
    quieten: async (withinMs) => {
      working.stopping.abort();
      await over;
      await untilAtRest(working, withinMs);
    },
    goOn: (withinMs) => goOn(working, withinMs),
  };
}

async function lastingSession(working: Working, random: Random, hasRepository: boolean): Promise<void> {
  const signal = working.stopping.signal;
  const wanted = { title: "lasting", ...(hasRepository ? { repository: { url: working.repository } } : {}) };
  const created = await insist(signal, () => createSession(working.server, wanted));
  if (created === undefined) return;
  const session = created.session.id;
  working.lasting.push(session);
  while (!signal.aborted) {
    await post(working, session, messageText(working, random));
    if (random.chance(0.4)) {
      await delay(random.between(20, 400));
      await post(working, session, messageText(working, random), random.chance(0.5) ? "steer" : "queue");
    }
    if (random.chance(0.08)) {
      await delay(random.between(50, 600));
      await insist(signal, () => interruptTurn(working.server, session));
    }
    await untilFree(working, session, signal);
  }
}

/**
 * Says at length what it says, to a model that remembers little. One message at a time: more of them than fit into the
 * model's window could never be given to it.
 */
async function forgetfulSession(working: Working, random: Random): Promise<void> {
  const signal = working.stopping.signal;
  const wanted = { title: "forgetful", model: working.shortMemoryModel };
  const created = await insist(signal, () => createSession(working.server, wanted));
  if (created === undefined) return;
  const session = created.session.id;
  working.lasting.push(session);
  working.forgetful = session;
  while (!signal.aborted) {
    await post(working, session, longText(random));
    await untilGiven(working, session, signal);
    // Turns without a command would otherwise take most of the brains' time.
    await delay(random.between(100, 300));
  }
}

function longText(random: Random): string {
  return `Go on. ${"It is much that has to be remembered. ".repeat(random.between(20, 120))}`;
}

async function post(working: Working, session: string, text: string, delivery: "steer" | "queue" = "steer") {
  const messageId = newId("message");
  const { signal } = working.stopping;
  const posted = await insist(signal, () => postMessage(working.server, session, { text, delivery, messageId }));
  if (posted !== undefined) working.accepted.push({ session, messageId });
}

/** Waits until the session has nothing to do, so that its ledger does not grow faster than it works. */
async function untilFree(working: Working, session: string, signal: AbortSignal | undefined): Promise<void> {
  while (signal?.aborted !== true) {
    const found = await insist(signal, () => getSession(working.server, session));
    if (found === undefined || found.status !== "running") return;
    await delay(LOOK_EVERY_MS);
  }
}

/** Waits until the model has all that was posted, and has answered. */
async function untilGiven(working: Working, session: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await untilFree(working, session, signal);
    const found = await insist(signal, () => getSession(working.server, session));
    if (found === undefined || found.queueHeld || (found.status === "idle" && found.queuedMessages === 0)) return;
    await delay(LOOK_EVERY_MS);
  }
}

/** Sessions with a repository, one after the other; some are ended in the middle of their turn. */
async function mortalSessions(working: Working, random: Random): Promise<void> {
  const { signal } = working.stopping;
  while (!signal.aborted) {
    const repository = { url: working.repository };
    const created = await insist(signal, () => createSession(working.server, { title: "mortal", repository }));
    if (created === undefined) return;
    const session = created.session.id;
    working.mortal.push(session);
    await post(working, session, messageText(working, random));
    if (random.chance(0.5)) await untilGiven(working, session, AbortSignal.any([signal, AbortSignal.timeout(15_000)]));
    else await delay(random.between(100, 1_500));
    await insist(undefined, () => endSession(working.server, session));
    await delay(random.between(100, 600));
  }
}

function newMark(working: Working, random: Random): string {
  return `${++working.marks}-${random.between(0, 2 ** 30).toString(36)}`;
}

/** One message of the script model: a few steps of every kind. */
function messageText(working: Working, random: Random): string {
  const steps = Array.from({ length: random.between(1, 4) }, () => stepText(working, random));
  return steps.join("\n");
}

function stepText(working: Working, random: Random): string {
  const id = newMark(working, random);
  const kind = random.between(0, 10);
  if (kind <= 1) return ["> read /workspace/marks", "& > list /workspace", "& > read /workspace/marks"].join("\n");
  if (kind === 2) return `> write /workspace/written/mark-${id}\n\`\`\`\n${id}\n\`\`\``;
  if (kind === 3) return `> background ${markCommand(id, random.between(1, 8) / 10)}`;
  if (kind === 4) return `$ ${markCommand(id, random.between(10, 25) / 10)}`;
  if (kind === 5) return inOneReply([id, newMark(working, random), newMark(working, random)], 0.2);
  return `$ ${markCommand(id, random.between(0, 30) / 100)}`;
}

/** Several commands of one reply: they run one after the other, and all but the first are asked for and not started. */
function inOneReply(ids: readonly string[], seconds: number): string {
  return ids.map((id, index) => `${index === 0 ? "" : "& "}$ ${markCommand(id, seconds)}`).join("\n");
}

async function stopSomething(working: Working): Promise<void> {
  // While the gateway is away none may be there yet.
  if (working.lasting.length === 0) return;
  const session = working.random.pick(working.lasting);
  const ids = [newMark(working, working.random), newMark(working, working.random)];
  await post(working, session, inOneReply(ids, 3));
  await delay(working.random.between(200, 900));
  await insist(working.stopping.signal, () => interruptTurn(working.server, session));
}

/** The sessions whose turn did not complete. */
async function goOn(working: Working, withinMs: number): Promise<string[]> {
  const { server, random } = working;
  const stuck = working.lasting.map(async (session) => {
    const went = await goOnOnce(server, { session, markId: newMark(working, random), withinMs });
    const { messageId, markId } = went.turn;
    working.accepted.push({ session, messageId });
    working.lastTurns.push({ session, messageId, markId: session === working.forgetful ? undefined : markId });
    return went.stuck === undefined ? [] : [went.stuck];
  });
  return (await Promise.all(stuck)).flat();
}
