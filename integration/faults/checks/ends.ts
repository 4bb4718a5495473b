// How calls ended.
import type { CallHistory } from "../calls.ts";
import type { Violation } from "../violation.ts";

/** I3: each call that was asked for has one end, and each start came once. */
export function endsOf(calls: readonly CallHistory[]): Violation[] {
  return calls.flatMap(({ callId, session, starts, ends }): Violation[] => {
    const many: Violation[] =
      starts > 1 ? [{ of: "I3", session, text: `Call ${callId} was started ${starts} times` }] : [];
    if (ends.length === 1) return many;
    const names = ends.map(({ type }) => type).join(", ") || "none";
    return [...many, { of: "I3", session, text: `Call ${callId} has ${ends.length} ends: ${names}` }];
  });
}
