// The gateway's fold of a session as JSON, so that the first request on a long session reads only its tail.
import { z } from "zod";
import { delivery } from "#schemas/ledger/events/gateway.ts";
import { digest, id } from "#schemas/ledger/parts.ts";
import type { SnapshotForm } from "#shared/ledger/snapshots.ts";
import type { Messages, PostedMessage, Session, Settled } from "./session.ts";

/** To be raised with every change of what the fold makes of the same events; snapshot.test.ts notices one. */
export const FOLD_VERSION = 1;

const posted = { textDigest: digest, delivery };
const queued = z.tuple([id, z.strictObject({ ...posted, status: z.literal("queued") })]);
const settled = z.tuple([id, z.strictObject({ ...posted, status: z.enum(["delivered", "withdrawn"]) })]);

/** Oldest first. */
const messages = z.strictObject({ queued: z.array(queued), settled: z.array(settled) }).transform(
  (kept): Messages => ({
    queued: new Map<string, PostedMessage>(kept.queued),
    settled: kept.settled.reduce<Settled>(
      (before, [messageId, message]) => ({ messageId, message, before }),
      undefined,
    ),
  }),
);

const session: z.ZodType<Session> = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("absent") }),
  z.strictObject({ status: z.literal("idle"), messages }),
  z.strictObject({ status: z.literal("running"), messages, turnId: id, interruptRequested: z.boolean() }),
  z.strictObject({ status: z.enum(["ending", "ended"]), messages }),
]);

export const gatewayFold: SnapshotForm<Session> = {
  fold: "gateway",
  foldVersion: FOLD_VERSION,
  read: session,
  write: (state) => (state.status === "absent" ? state : { ...state, messages: jsonOf(state.messages) }),
};

function jsonOf({ queued: waiting, settled: newest }: Messages) {
  const list: [string, PostedMessage][] = [];
  for (let at = newest; at !== undefined; at = at.before) list.push([at.messageId, at.message]);
  return { queued: [...waiting], settled: list.reverse() };
}
