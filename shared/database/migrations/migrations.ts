// Every migration ever run, in order. Rows are added, never edited.
import { MirrorAndSessions } from "./0001-mirror-and-sessions.ts";
import { UnsettledSessions } from "./0002-unsettled-sessions.ts";
import { SessionSnapshots } from "./0003-session-snapshots.ts";

export const migrations = [
  { name: "0001-mirror-and-sessions", class: MirrorAndSessions },
  { name: "0002-unsettled-sessions", class: UnsettledSessions },
  { name: "0003-session-snapshots", class: SessionSnapshots },
] as const;
