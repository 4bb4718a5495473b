// Gathers live messages between two flushes: deltas of one reply or one call become one message, each session has a
// cap, and what is over the cap is dropped and leaves a gap in the numbers.
import type { LiveMessage } from "#schemas/live/live.ts";

/** Characters that one session may hold between two flushes. */
export const SESSION_CHARACTERS_MAX = 64 * 1024;
/** Sessions whose numbering, and calls whose dropped bytes, are remembered. */
const REMEMBERED_MAX = 10_000;

type Output = Extract<LiveMessage, { kind: "output" }>;
type Waiting = { messages: LiveMessage[]; characters: number };
type Numbering = { epoch: number; next: number };

export type Coalescer = Readonly<{
  /** The message's own number is replaced. */
  add: (session: string, message: LiveMessage) => void;
  /** Everything gathered, numbered, and forgotten here. */
  take: () => { session: string; message: LiveMessage }[];
}>;

export function coalescer(): Coalescer {
  const waiting = new Map<string, Waiting>();
  const numbers = new Map<string, Numbering>();
  const skipped = new Map<string, number>();
  return {
    add(session, message) {
      const held = waiting.get(session) ?? { messages: [], characters: 0 };
      waiting.set(session, held);
      if (held.characters + message.text.length > SESSION_CHARACTERS_MAX) {
        nextNumber(numbers, session, message.epoch);
        countSkipped(skipped, message);
        return;
      }
      held.characters += message.text.length;
      const joined = join(held.messages.at(-1), message, skipped);
      if (joined !== undefined) held.messages[held.messages.length - 1] = joined;
      else held.messages.push(numbered(withSkipped(message, skipped), nextNumber(numbers, session, message.epoch)));
    },
    take() {
      const taken = [...waiting].flatMap(([session, held]) => held.messages.map((message) => ({ session, message })));
      waiting.clear();
      return taken;
    },
  };
}

function numbered(message: LiveMessage, number: number): LiveMessage {
  return { ...message, number };
}

function countSkipped(skipped: Map<string, number>, message: LiveMessage): void {
  if (message.kind !== "output") return;
  const bytes = Buffer.byteLength(message.text) + message.skippedBytes;
  remember(skipped, message.callId, (skipped.get(message.callId) ?? 0) + bytes);
}

function withSkipped(message: LiveMessage, skipped: Map<string, number>): LiveMessage {
  if (message.kind !== "output") return message;
  const bytes = skipped.get(message.callId) ?? 0;
  skipped.delete(message.callId);
  return { ...message, skippedBytes: message.skippedBytes + bytes };
}

function join(
  last: LiveMessage | undefined,
  next: LiveMessage,
  skipped: ReadonlyMap<string, number>,
): LiveMessage | undefined {
  if (last === undefined || last.epoch !== next.epoch) return undefined;
  if (last.kind === "output" && next.kind === "output") return joinOutput(last, next, skipped);
  const deltas =
    (last.kind === "text-delta" && next.kind === "text-delta") ||
    (last.kind === "reasoning-delta" && next.kind === "reasoning-delta");
  return deltas && last.replyId === next.replyId ? { ...last, text: last.text + next.text } : undefined;
}

function joinOutput(last: Output, next: Output, skipped: ReadonlyMap<string, number>): Output | undefined {
  if (last.callId !== next.callId || next.skippedBytes > 0 || skipped.has(next.callId)) return undefined;
  return { ...last, text: last.text + next.text };
}

/** Numbers start anew with an epoch. */
function nextNumber(numbers: Map<string, Numbering>, session: string, epoch: number): number {
  const known = numbers.get(session);
  const next = known?.epoch === epoch ? known.next : 0;
  remember(numbers, session, { epoch, next: next + 1 });
  return next;
}

/** What was quiet longest is forgotten first. */
function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  const oldest = map.keys().next();
  if (map.size > REMEMBERED_MAX && !oldest.done) map.delete(oldest.value);
}
