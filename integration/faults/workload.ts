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
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { markCommand } from "./observed.ts";
import type { Random } from "./random.ts";

const RETRY_MS = 100;
const LOOK_EVERY_MS = 150;

export type Workload = Readonly<{
  /** Sessions that live through the whole run. */
  sessions: () => readonly string[];
  accepted: readonly Readonly<{ session: string; messageId: string }>[];
  /** Turns that were begun, roughly: messages that were posted. */
  posted: () => number;
  /** Presses Stop in one of the sessions while a long command runs. */
  stopSomething: () => Promise<void>;
  /** Posts no more; resolves when every session is idle, rejects with those that are not. */
  quieten: (withinMs: number) => Promise<void>;
  /** One more message for each session that is open: resolves when each has ended its turn with a completed one. */
  goOn: (withinMs: number) => Promise<string[]>;
}>;

export type WorkloadOptions = Readonly<{
  server: Server;
  random: Random;
  sessions: number;
  /** A model whose window is small, so that its session's history is made shorter again and again. */
  shortMemoryModel: string;
  say: (line: string) => void;
  /** A repository for the sessions that are opened and ended again and again. */
  repository: string;
}>;

type Working = WorkloadOptions & {
  stopping: AbortController;
  accepted: { session: string; messageId: string }[];
  lasting: string[];
  mortal: string[];
  marks: number;
};

export function startWorkload(options: WorkloadOptions): Workload {
  const working: Working = {
    ...options,
    stopping: new AbortController(),
    accepted: [],
    lasting: [],
    mortal: [],
    marks: 0,
  };
  const loops = [
    ...Array.from({ length: options.sessions }, () => lastingSession(working, options.random.branch())),
    forgetfulSession(working, options.random.branch()),
    mortalSessions(working, options.random.branch()),
  ];
  const over = Promise.all(loops);
  return {
    sessions: () => working.lasting,
    accepted: working.accepted,
    posted: () => working.accepted.length,
    stopSomething: () => stopSomething(working),
    quieten: async (withinMs) => {
      working.stopping.abort();
      await over;
      await untilIdle(working, withinMs);
    },
    goOn: (withinMs) => goOn(working, withinMs),
  };
}

/** The gateway may be away, or away just when it had stored the request: the same id makes a second try safe. */
async function insist<T>(signal: AbortSignal | undefined, ask: () => Promise<T>): Promise<T | undefined> {
  while (signal?.aborted !== true) {
    try {
      return await ask();
    } catch (error) {
      // A 5xx arrives as a Refusal of the client too.
      const isAnswer = error instanceof Refusal && /^(no_open_turn|session_|message_|not_found)/.test(error.code);
      if (isAnswer) return undefined;
      if (!(error instanceof Refusal || error instanceof Retryable || isTimeout(error))) throw error;
      await delay(RETRY_MS);
    }
  }
  return undefined;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && (error.name === "TimeoutError" || error.name === "AbortError");
}

async function lastingSession(working: Working, random: Random): Promise<void> {
  const signal = working.stopping.signal;
  const created = await insist(signal, () => createSession(working.server, { title: "lasting" }));
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

async function untilIdle(working: Working, withinMs: number): Promise<void> {
  const giveUpAt = performance.now() + withinMs;
  let busy = [...working.lasting, ...working.mortal];
  while (performance.now() < giveUpAt) {
    const states = await Promise.all(
      busy.map(async (session) => ({
        session,
        found: await insist(undefined, () => getSession(working.server, session)),
      })),
    );
    const left = states.filter(({ found }) => isBusy(found));
    if (left.length < busy.length)
      working.say(`${left.length} sessions are not at rest: ${left.map(inWords).join(", ")}`);
    busy = left.map(({ session }) => session);
    if (busy.length === 0) return;
    await delay(LOOK_EVERY_MS);
  }
  throw new Error(`These sessions do not come to rest within ${withinMs} ms: ${busy.join(", ")}`);
}

function inWords({ session, found }: { session: string; found: Seen }): string {
  return `${session} is ${found?.status}, sandbox ${found?.sandbox.state}`;
}

type Seen = Awaited<ReturnType<typeof getSession>> | undefined;

function isBusy(found: Seen): boolean {
  if (found === undefined) return false;
  return found.status === "running" || found.status === "ending";
}

/** The sessions whose turn did not complete. */
async function goOn(working: Working, withinMs: number): Promise<string[]> {
  const stuck = await Promise.all(
    working.lasting.map(async (session) => {
      const id = newMark(working, working.random);
      const messageId = newId("message");
      const text = `$ ${markCommand(id, 0)}`;
      await insist(undefined, () => postMessage(working.server, session, { text, delivery: "steer", messageId }));
      working.accepted.push({ session, messageId });
      const found = await untilTaken(working, session, { messageId, signal: AbortSignal.timeout(withinMs) });
      const isDone = found !== undefined && !isBusy(found) && found.lastTurn?.reason === "completed";
      return isDone ? [] : [`${session} is ${found?.status}, its last turn ${JSON.stringify(found?.lastTurn)}`];
    }),
  );
  return stuck.flat();
}

/** The session once the message was given to the model and the turn is over, or as it is when the time is up. */
async function untilTaken(
  { server }: Working,
  session: string,
  { messageId, signal }: { messageId: string; signal: AbortSignal },
): Promise<Seen> {
  for (;;) {
    const found = await insist(undefined, () => getSession(server, session));
    const waits = found?.queue.some((queued) => queued.messageId === messageId) ?? false;
    if (signal.aborted || (!waits && !isBusy(found))) return found;
    await delay(LOOK_EVERY_MS);
  }
}
