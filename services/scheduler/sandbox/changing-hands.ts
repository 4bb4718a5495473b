import { Refusal } from "#shared/errors/errors.ts";
import type { SessionSandbox } from "./sandbox.ts";

/** The report is about a warm sandbox that a session is just getting: it has to be read again. */
export const CHANGES_HANDS = "sandbox_changes_hands";

/** What is reported of a warm sandbox belongs to the session that has claimed it. */
export function refuseChangingHands({ pool, ended }: SessionSandbox, member: string): void {
  if (pool?.claimedBy === undefined || ended) return;
  throw new Refusal(CHANGES_HANDS, `${member} belongs to ${pool.claimedBy}, which does not have it yet`);
}
