// PostgreSQL: the ledger's mirror and what is read from it. MikroORM holds the entities, the migrations and the
// transactions; the mirror's own reads go through the same pool with bound parameters, because MikroORM writes
// values into the SQL text, which for bytes means hexadecimal twice their size, parsed on each side.
import { Migrator } from "@mikro-orm/migrations";
import { MikroORM } from "@mikro-orm/postgresql";
import {
  appliedSequenceEntity,
  ledgerMessageEntity,
  sessionOverviewEntity,
  sessionSnapshotEntity,
} from "./entities.ts";
import { migrations } from "./migrations/migrations.ts";
import { MIGRATION_TABLE } from "./migrations/names.ts";
import { CONNECT_MS, CONNECTIONS_MAX, type DatabasePool, ended, pingPool } from "./pool.ts";

export type Database = DatabasePool & Readonly<{ orm: MikroORM }>;

/** Connects to `url` (postgres://…). Does not migrate: see `migrate`. Throws when the server does not answer. */
export async function openDatabase(url: string): Promise<Database> {
  const orm = await MikroORM.init({
    clientUrl: url,
    entities: [ledgerMessageEntity, sessionOverviewEntity, appliedSequenceEntity, sessionSnapshotEntity],
    extensions: [Migrator],
    migrations: { migrationsList: migrations, snapshot: false, tableName: MIGRATION_TABLE, silent: true },
    pool: { max: CONNECTIONS_MAX },
    driverOptions: { connectionTimeoutMillis: CONNECT_MS, keepAlive: true },
    allowGlobalContext: false,
  });
  const pool = await orm.em.getConnection().getNativeClient();
  return { orm, pool, ping: () => pingPool(pool), close: () => ended(orm.close()) };
}
