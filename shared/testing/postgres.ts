// One PostgreSQL server for all tests of a mocha process, started by the first that asks, and a fresh database per
// call. It dies with the process; its folder goes when the tests end.
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningPostgres, startPostgres } from "#shared/embedded/postgres.ts";
import { createDatabase, dropDatabase } from "#shared/embedded/postgres-connection.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { silentLog } from "#shared/service/log.ts";

type TestServer = { folder: string; postgres: RunningPostgres };

let server: Promise<TestServer> | undefined;
let made = 0;

/** An empty database of its own. `close` drops it, whoever is still connected; it may be called twice. */
export async function testDatabase(): Promise<{ url: string; close: () => Promise<void> }> {
  server ??= startServer();
  const { postgres } = await server;
  const name = `test_${++made}`;
  await createDatabase(postgres.url, name);
  const url = new URL(postgres.url);
  url.pathname = `/${name}`;
  return { url: url.href, close: () => dropDatabase(postgres.url, name) };
}

/** Mocha calls it after the last test; a program that is no test calls it itself. */
export async function stopTestPostgres(): Promise<void> {
  const running = await server;
  server = undefined;
  await running?.postgres.close();
  if (running !== undefined) await rm(running.folder, { recursive: true, force: true });
}

async function startServer(): Promise<TestServer> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-postgres-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const postgres = await startPostgres({ stateDir: folder, password: newSecret(), log: silentLog, withParent: true });
  return { folder, postgres };
}

// Registered while a test file is being loaded, hence a hook of the root suite.
if (typeof after === "function") after("stop the tests' PostgreSQL", stopTestPostgres);
