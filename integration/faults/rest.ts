// What there is to see of a workload's end through the gateway: every session comes to rest, and goes on when it is told to.
import { setTimeout as delay } from "node:timers/promises";
import { getSession, postMessage, type Server } from "#services/cli/client/api.ts";
import { newId } from "#shared/ids/ids.ts";
import { insist } from "./insist.ts";
import { type LastTurn, markCommand } from "./observed.ts";

const LOOK_EVERY_MS = 150;

/** Seen through the gateway; undefined: there is no such session. */
export type Seen = Awaited<ReturnType<typeof getSession>> | undefined;

export type Resting = Readonly<{
  server: Server;
  /** Those that live on. */
  lasting: readonly string[];
  /** Those that were ended, with all that they had. */
  mortal: readonly string[];
  say: (line: string) => void;
}>;

/** Resolves when every session is at rest, rejects with those that are not. */
export async function untilAtRest({ server, lasting, mortal, say }: Resting, withinMs: number): Promise<void> {
  const giveUpAt = performance.now() + withinMs;
  const isDone = new Set(mortal);
  let busy = [...lasting, ...mortal];
  while (performance.now() < giveUpAt) {
    const states = await Promise.all(busy.map(async (session) => ({ session, found: await look(server, session) })));
    const left = states.filter(({ session, found }) => (isDone.has(session) ? !isOver(found) : isBusy(found)));
    if (left.length < busy.length) say(`${left.length} sessions are not at rest: ${left.map(inWords).join(", ")}`);
    busy = left.map(({ session }) => session);
    if (busy.length === 0) return;
    await delay(LOOK_EVERY_MS);
  }
  throw new Error(`These sessions do not come to rest within ${withinMs} ms: ${busy.join(", ")}`);
}

function look(server: Server, session: string): Promise<Seen> {
  return insist(undefined, () => getSession(server, session));
}

function inWords({ session, found }: { session: string; found: Seen }): string {
  return `${session} is ${found?.status}, sandbox ${found?.sandbox.state}`;
}

function isBusy(found: Seen): boolean {
  if (found === undefined) return false;
  return found.status === "running" || found.status === "ending";
}

const NOTHING_LEFT = new Set<string | undefined>(["absent", "destroyed"]);

/** The session has ended and its sandbox is gone, or there never was one. */
export function isOver(found: Pick<NonNullable<Seen>, "status" | "sandbox"> | undefined): boolean {
  return found === undefined || (found.status === "ended" && NOTHING_LEFT.has(found.sandbox.state));
}

/** One more message for the session: how its turn can be known, and what is wrong with it when `withinMs` are over. */
export async function goOnOnce(
  server: Server,
  { session, markId, withinMs }: { session: string; markId: string; withinMs: number },
): Promise<Readonly<{ turn: LastTurn; stuck: string | undefined }>> {
  const messageId = newId("message");
  const text = `$ ${markCommand(markId, 0)}`;
  await insist(undefined, () => postMessage(server, session, { text, delivery: "steer", messageId }));
  const found = await untilTaken(server, session, { messageId, signal: AbortSignal.timeout(withinMs) });
  const isDone = found !== undefined && !isBusy(found) && found.lastTurn?.reason === "completed";
  const stuck = isDone ? undefined : `${session} is ${found?.status}, its last turn ${JSON.stringify(found?.lastTurn)}`;
  return { turn: { session, messageId, markId }, stuck };
}

/** The session once the message was given to the model and the turn is over, or as it is when the time is up. */
async function untilTaken(
  server: Server,
  session: string,
  { messageId, signal }: { messageId: string; signal: AbortSignal },
): Promise<Seen> {
  for (;;) {
    const found = await look(server, session);
    const waits = found?.queue.some((queued) => queued.messageId === messageId) ?? false;
    if (signal.aborted || (!waits && !isBusy(found))) return found;
    await delay(LOOK_EVERY_MS);
  }
}
