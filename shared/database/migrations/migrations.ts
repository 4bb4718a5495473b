// The class of every migration, in the order of their names.
import type { Constructor } from "@mikro-orm/core";
import type { Migration } from "@mikro-orm/migrations";
import { MirrorAndSessions } from "./0001-mirror-and-sessions.ts";
import { UnsettledSessions } from "./0002-unsettled-sessions.ts";
import { SessionSnapshots } from "./0003-session-snapshots.ts";
import { type MigrationName, migrationNames } from "./names.ts";

const classes: Record<MigrationName, Constructor<Migration>> = {
  "0001-mirror-and-sessions": MirrorAndSessions,
  "0002-unsettled-sessions": UnsettledSessions,
  "0003-session-snapshots": SessionSnapshots,
};

export const migrations = migrationNames.map((name) => ({ name, class: classes[name] }));
