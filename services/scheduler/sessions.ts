// Decides and appends, one session at a time, and remembers recent sessions so that only what is new is read.
// What is remembered is checked by every append: the ledger refuses one that was decided on an old state.
import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import { type Folded, handleCommand, load } from "#shared/ledger/handle-command.ts";
import type { Cause, Ledger } from "#shared/ledger/ledger.ts";
import { decide, type SandboxCommand } from "./sandbox/decide.ts";
import { evolve, initialState, type SessionSandbox } from "./sandbox/sandbox.ts";

const SESSIONS_KEPT = 5_000;

export type Sessions = Readonly<{
  /** Resolves with the events that were appended: none when there was nothing to decide. */
  command: (command: SandboxCommand, cause?: Cause) => Promise<readonly SchedulerEvent[]>;
  current: (session: string) => Promise<SessionSandbox>;
  /** What the next facts about this session follow from. */
  noteCause: (session: string, cause: Cause) => void;
}>;

type Known = { folded?: Folded<SessionSandbox>; cause?: Cause };

const decider = { initialState, evolve, decide };

export function openSessions(ledger: Ledger): Sessions {
  const known = new Map<string, Known>();
  const remember = (session: string, news: Known) => {
    const all = { ...known.get(session), ...news };
    known.delete(session);
    known.set(session, all);
    const oldest = known.keys().next();
    if (known.size > SESSIONS_KEPT && !oldest.done) known.delete(oldest.value);
  };
  return {
    async command(command, cause) {
      const { session } = command;
      const { folded, cause: lastCause } = known.get(session) ?? {};
      const because = cause ?? lastCause ?? { correlationId: session, causationId: null };
      const { state, version, appended } = await handleCommand(ledger, decider, {
        session,
        command,
        cause: because,
        known: folded,
      });
      remember(session, { folded: { state, version } });
      return (appended?.events ?? []).filter(isOurs);
    },
    async current(session) {
      const folded = await load(ledger, decider, session, known.get(session)?.folded);
      remember(session, { folded });
      return folded.state;
    },
    noteCause: (session, cause) => remember(session, { cause }),
  };
}

function isOurs(event: { type: string }): event is SchedulerEvent {
  return event.type.startsWith("Sandbox") && event.type !== "SandboxNeeded";
}
