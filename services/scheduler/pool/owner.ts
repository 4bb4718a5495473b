// Whose a sandbox is. The id of a sandbox leads to the ledger that it began in; a warm one that a session has got
// stands in that session's ledger from then on.
import { isPoolMember } from "#schemas/scheduler/pool.ts";
import { sessionOf } from "../sandbox/sandbox.ts";
import type { Sessions } from "../sessions.ts";

/** The id of the session, or of the warm sandbox itself as long as no session has it in its ledger. */
export async function ownerOf({ now }: Pick<Sessions, "now">, sandboxId: string): Promise<string> {
  const first = sessionOf(sandboxId);
  if (!isPoolMember(first)) return first;
  const { pool, ended } = await now(first);
  if (pool?.claimedBy === undefined || ended) return first;
  const { sandbox } = await now(pool.claimedBy);
  return sandbox.status !== "absent" && sandbox.sandboxId === sandboxId ? pool.claimedBy : first;
}
