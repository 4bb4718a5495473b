// The brain's fold of a session as JSON, so that opening a long session reads only its tail.
import { z } from "zod";
import { replyPart } from "#schemas/ledger/events/brain.ts";
import { delivery } from "#schemas/ledger/events/gateway.ts";
import { count, failure, id, repositorySource } from "#schemas/ledger/parts.ts";
import type { SnapshotForm } from "#shared/ledger/snapshots.ts";
import { entriesOf, historyOf } from "./history.ts";
import type { Session } from "./session.ts";

/** To be raised with every change of what the fold makes of the same events; snapshot.test.ts notices one. */
export const FOLD_VERSION = 3;

export type KeptSession = Readonly<{ state: Session; lastMessageId: string | null }>;

/** A value that the fold always has, undefined or not; JSON leaves undefined ones out. */
const orUndefined = <Schema extends z.ZodType>(schema: Schema) => schema.optional().transform((value) => value);

const text = z.string();
const result = z.strictObject({ kind: z.literal("result"), callId: id, text, failed: z.boolean() });
const entry = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("message"), messageId: id, text }),
  z.strictObject({ kind: z.literal("reply"), replyId: id, model: text, content: z.array(replyPart) }),
  result,
  z.strictObject({ kind: z.literal("notice"), text }),
  z.strictObject({ kind: z.literal("summary"), text }),
  z.strictObject({
    kind: z.literal("ended"),
    reason: z.enum(["completed", "interrupted", "failed", "limit"]),
    text: orUndefined(text),
  }),
]);

const asked = { callId: id, modelCallId: text, tool: text, input: z.json() };
const place = { sandboxId: orUndefined(id), generation: orUndefined(count) };
const call = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("asked"), ...asked }),
  z.strictObject({ status: z.literal("started"), ...place, ...asked }),
  z.strictObject({ status: z.literal("closed"), ...place, ...asked }),
]);

const turn = z.strictObject({
  turnId: id,
  epoch: count,
  brain: text,
  messageId: id,
  steps: count,
  costUsd: z.number(),
  calls: z.array(call),
  compactions: count,
  interruptRequested: z.boolean(),
});

const boot = { generation: count, bootId: text };
const sandbox = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("absent") }),
  z.strictObject({ status: z.literal("asked") }),
  z.strictObject({ status: z.literal("up"), sandboxId: id, ...boot, unreachable: z.boolean() }),
  z.strictObject({ status: z.literal("stopped"), sandboxId: id, generation: count }),
  z.strictObject({ status: z.literal("failed"), failure }),
]);
const networkProbe = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("awaited") }),
  z.strictObject({ status: z.literal("passed"), generation: count }),
  z.strictObject({ status: z.literal("failed"), generation: count, failure }),
]);
const repositoryCopy = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("awaited") }),
  z.strictObject({ status: z.literal("copied"), generation: count }),
  z.strictObject({ status: z.literal("failed"), generation: count, failure }),
]);

const facts = {
  model: text,
  repository: orUndefined(repositorySource),
  epoch: count,
  history: z.array(entry).transform(historyOf),
  measured: orUndefined(z.strictObject({ replyId: id, tokens: count })),
  waiting: z.array(z.strictObject({ messageId: id, text, delivery })),
  held: z.boolean(),
  sandbox,
  networkProbe,
  lastSeen: orUndefined(z.strictObject(boot)),
  repositoryCopy,
  unstopped: z.array(id),
  endRequested: z.boolean(),
};
const session = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("absent") }),
  z.strictObject({ status: z.literal("ended") }),
  z.strictObject({ status: z.literal("idle"), ...facts }),
  z.strictObject({ status: z.literal("working"), ...facts, turn }),
]);

export const brainFold: SnapshotForm<KeptSession> = {
  fold: "brain",
  foldVersion: FOLD_VERSION,
  read: z.strictObject({ state: session, lastMessageId: id.nullable() }),
  write: ({ state, lastMessageId }) => ({ lastMessageId, state: jsonOf(state) }),
};

function jsonOf(state: Session): unknown {
  return "history" in state ? { ...state, history: entriesOf(state.history) } : state;
}
