// I7 and I8: what becomes of sandboxes.
import { eventsOf, type ObservedMessage } from "../observed.ts";
import type { Violation } from "../violation.ts";

/** I7 and I8: nothing takes a sandbox away from an open turn, and none is replaced that is not gone. */
export function sandboxesIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
  let turnIsOpen = false;
  let endRequested = false;
  const gone = new Set<number>();
  return eventsOf(messages).flatMap((event): Violation[] => {
    if (event.type === "TurnStarted") turnIsOpen = true;
    if (event.type === "TurnEnded") turnIsOpen = false;
    if (event.type === "SessionEndRequested") endRequested = true;
    if (event.type === "SandboxMissing") gone.add(event.data.generation);
    if (event.type === "SandboxDeleteRequested" && turnIsOpen && !endRequested) {
      return [{ of: "I7", session, text: `The sandbox's deletion was asked for in an open turn` }];
    }
    if (event.type !== "SandboxCreateRequested") return [];
    const { generation } = event.data;
    if (generation === 1 || gone.has(generation - 1)) return [];
    return [{ of: "I8", session, text: `Generation ${generation} was asked for, and the one before is not gone` }];
  });
}
