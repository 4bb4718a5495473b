/** Where MikroORM writes down what it has done. */
export const MIGRATION_TABLE = "migration";

/** Every migration ever made, in order. Rows are added, never edited. */
export const migrationNames = [
  "0001-mirror-and-sessions",
  "0002-unsettled-sessions",
  "0003-session-snapshots",
] as const;

export type MigrationName = (typeof migrationNames)[number];
