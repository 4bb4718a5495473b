// A batch of ledger messages over the rows that exist. Pure; what was applied before is left out, by sequence.
import type { SessionDetail } from "#schemas/api/session.ts";
import type { StoredOverview } from "#shared/database/sessions.ts";
import type { LedgerMessage, Version } from "#shared/ledger/ledger.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";

/** A session whose message does not follow on the one that was applied before it. */
export type Gap = Readonly<{ session: string; after: number; sequence: number }>;

export type Projected = Readonly<{ overviews: readonly StoredOverview[]; gaps: readonly Gap[] }>;

type Progress = Readonly<{ session: SessionDetail | undefined; version: Version }>;

/** The rows to write. A session that was never created, like the install's own, has none. */
export function project(known: readonly StoredOverview[], messages: readonly LedgerMessage[]): Projected {
  const sessions = new Map<string, Progress>(known.map((stored) => [stored.session.id, stored]));
  const gaps: Gap[] = [];
  const changed = new Set<string>();
  for (const message of messages) {
    const before = sessions.get(message.session);
    if (before !== undefined && message.sequence <= before.version.sequence) continue;
    if (before !== undefined && before.version.hash !== message.prev) gaps.push(gapBetween(before.version, message));
    sessions.set(message.session, after(before, message));
    changed.add(message.session);
  }
  return { overviews: [...changed].flatMap((session) => stored(sessions.get(session))), gaps };
}

function after(before: Progress | undefined, message: LedgerMessage): Progress {
  const version = { sequence: message.sequence, hash: message.hash };
  return { session: evolveOverview(before?.session, message), version };
}

function gapBetween({ sequence }: Version, message: LedgerMessage): Gap {
  return { session: message.session, after: sequence, sequence: message.sequence };
}

function stored(progress: Progress | undefined): StoredOverview[] {
  return progress?.session === undefined ? [] : [{ session: progress.session, version: progress.version }];
}
