// The warm pool's record: which of its sandboxes there are. One entry in a KV bucket of the CORE account, replaced by
// compare-and-swap, so that several schedulers never make more than were asked for. What each of them is stands in the
// ledger, under a reserved session id of its own.
import { z } from "zod";

export const WARM_MAX = 100;

/** `pool` stands before the ULID, whose alphabet has neither O nor L: no session has such an id. */
const POOL_MEMBER = /^ses_pool[0-9a-z]{26}$/;

export const poolRecord = z.strictObject({
  members: z.array(z.string().regex(POOL_MEMBER)).max(WARM_MAX),
  failuresInRow: z.number().int().nonnegative().describe("Sandboxes that failed since the last one that was good"),
  waitUntil: z.iso.datetime().nullable().describe("No sandbox is made before, as the last ones failed"),
});

export type PoolRecord = z.output<typeof poolRecord>;

export const EMPTY_POOL: PoolRecord = Object.freeze({ members: [], failuresInRow: 0, waitUntil: null });

export function isPoolMember(session: string): boolean {
  return POOL_MEMBER.test(session);
}

/** The reserved session id that a sandbox of the pool has until a session gets it, from the id of a new session. */
export function poolMemberOf(newSession: string): string {
  return newSession.replace(/^ses_/, "ses_pool");
}
