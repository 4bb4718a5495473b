// Decides and appends, one session at a time, and remembers recent sessions so that only what is new is read.
// What is remembered is checked by every append: the ledger refuses one that was decided on an old state.
import { isEventType, writerOf } from "#schemas/ledger/event.ts";
import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import { type Folded, follow, handleCommand, load } from "#shared/ledger/handle-command.ts";
import type { Cause, Ledger, LedgerMessage } from "#shared/ledger/ledger.ts";
import { decide, type SandboxCommand } from "./sandbox/decide.ts";
import { evolve, initialState, type SessionSandbox } from "./sandbox/sandbox.ts";

const SESSIONS_KEPT = 5_000;

export type Sessions = Readonly<{
  /** Resolves with the events that were appended: none when there was nothing to decide. */
  command: (command: SandboxCommand, cause?: Cause) => Promise<readonly SchedulerEvent[]>;
  /** What the session is at this message of the feed, or later. */
  at: (message: LedgerMessage) => Promise<SessionSandbox>;
  /** What the session is now: everything that was appended before this call is in it. */
  now: (session: string) => Promise<SessionSandbox>;
  /** Takes in what the feed hands out, in order, so that most of it need not be read again. */
  follow: (message: LedgerMessage) => void;
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
    async at({ session, sequence }) {
      const folded = known.get(session)?.folded;
      if (folded !== undefined && folded.version.sequence >= sequence) return folded.state;
      const loaded = await load(ledger, decider, session, folded);
      remember(session, { folded: loaded });
      return loaded.state;
    },
    async now(session) {
      const loaded = await load(ledger, decider, session, known.get(session)?.folded);
      if (loaded.state.provider !== undefined) remember(session, { folded: loaded });
      return loaded.state;
    },
    follow(message) {
      const folded = follow(decider, known.get(message.session)?.folded, message);
      if (folded !== undefined) remember(message.session, { folded });
    },
    noteCause: (session, cause) => remember(session, { cause }),
  };
}

function isOurs(event: { type: string }): event is SchedulerEvent {
  return isEventType(event.type) && writerOf(event.type) === "scheduler";
}
