// Every migration ever run, in order. Rows are added, never edited.
import { MirrorAndSessions } from "./0001-mirror-and-sessions.ts";

export const migrations = [{ name: "0001-mirror-and-sessions", class: MirrorAndSessions }] as const;
