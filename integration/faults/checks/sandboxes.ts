// I7 and I8: what becomes of sandboxes.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { eventsOf, type ObservedMessage } from "../observed.ts";
import type { Violation } from "../violation.ts";

type Known = {
  /** The session is over, or the sandbox of the warm pool goes to none any more: no turn will ever be open. */
  isOver: boolean;
  /** Its processes were seen to be gone since pistisd joined for the last time. */
  isStopped: boolean;
  joined: Set<number>;
  missing: Set<number>;
};

/**
 * I7 and I8: nothing takes a sandbox away from a session that is not over, and none is started again or replaced that is
 * not seen to be stopped or gone. `disksLost`: how often a disk of the session was really taken away.
 */
export function sandboxesIn(session: string, messages: readonly ObservedMessage[], disksLost: number): Violation[] {
  const known: Known = { isOver: false, isStopped: false, joined: new Set(), missing: new Set() };
  const asked = eventsOf(messages).flatMap((event): Violation[] => {
    learn(known, event);
    return wrongRequest(known, event).map((violation) => ({ ...violation, session }));
  });
  const made = [...known.missing].filter((generation) => known.joined.has(generation));
  if (made.length <= disksLost) return asked;
  const text = `Generations ${made.join(", ")} are told as gone, and ${disksLost} disks were taken away`;
  return [...asked, { of: "I8", session, text }];
}

function learn(known: Known, event: PistisEvent): void {
  switch (event.type) {
    case "SessionEnded":
    case "PoolMemberRetired":
      known.isOver = true;
      return;
    case "SandboxJoined":
      known.isStopped = false;
      known.joined.add(event.data.generation);
      return;
    case "SandboxStopped":
      known.isStopped = true;
      return;
    case "SandboxMissing":
      known.missing.add(event.data.generation);
      return;
  }
}

function wrongRequest(known: Known, event: PistisEvent): Pick<Violation, "of" | "text">[] {
  switch (event.type) {
    case "SandboxDeleteRequested":
      return known.isOver
        ? []
        : [{ of: "I7", text: "The sandbox's deletion was asked for, and its session is not over" }];
    case "SandboxRestartRequested":
      return known.isStopped
        ? []
        : [{ of: "I7", text: "A restart was asked for of a sandbox that nobody saw stopped" }];
    case "SandboxCreateRequested": {
      const { generation } = event.data;
      if (generation === 1 || known.missing.has(generation - 1)) return [];
      return [{ of: "I8", text: `Generation ${generation} was asked for, and the one before is not gone` }];
    }
    default:
      return [];
  }
}
