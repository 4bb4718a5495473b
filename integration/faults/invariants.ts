// The invariants I1 to I8 as checks of what a run left behind: the ledger's messages and the marks on the sandboxes'
// disks. Pure, and none of it shares code with what it checks.
import { callsOf } from "./calls.ts";
import { deliveriesIn, lostMessages } from "./checks/deliveries.ts";
import { endsOf, endsOfTheirOwn, faultsOfBrains } from "./checks/ends.ts";
import { effectsAfterEnd, epochsIn } from "./checks/epochs.ts";
import { marksTwice, marksWithoutStart } from "./checks/marks.ts";
import { repliesIn } from "./checks/replies.ts";
import { sandboxesIn } from "./checks/sandboxes.ts";
import { untruths } from "./checks/truth.ts";
import { notGoneOn } from "./checks/work.ts";
import type { Observed } from "./observed.ts";
import type { Violation } from "./violation.ts";

/** Everything that does not hold. To be asked when all is quiet: a call that still runs has no end yet. */
export function violationsIn(observed: Observed): Violation[] {
  const calls = callsOf(observed.messages);
  const bySession = Map.groupBy(observed.messages, ({ session }) => session);
  const disksLost = Map.groupBy(observed.disksLost, (session) => session);
  const ordered = [...bySession].flatMap(([session, messages]) => [
    ...epochsIn(session, messages),
    ...repliesIn(session, messages),
    ...sandboxesIn(session, messages, disksLost.get(session)?.length ?? 0),
    ...deliveriesIn(session, messages),
  ]);
  return [
    ...marksWithoutStart(observed, calls),
    ...marksTwice(observed, calls),
    ...endsOf(calls),
    ...endsOfTheirOwn(observed.messages, calls),
    ...faultsOfBrains(observed.messages),
    ...effectsAfterEnd(observed, calls),
    ...untruths(observed, calls),
    ...ordered,
    ...lostMessages(observed),
    ...notGoneOn(observed, calls),
  ];
}
