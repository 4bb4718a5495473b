// A whole install on a NATS and a PostgreSQL that a test can take away and give back.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Server } from "#services/cli/client/api.ts";
import { startInstall } from "#services/cli/dev/install.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { openTerminal } from "#services/cli/terminal/terminal.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import { openDatabase } from "#shared/database/database.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { startNatsServer } from "#shared/embedded/nats-server.ts";
import { startPostgres } from "#shared/embedded/postgres.ts";
import { newSecret } from "#shared/ids/ids.ts";
import type { Verification } from "#shared/ledger/verification.ts";
import { connectNats } from "#shared/nats/connection.ts";
import { newNatsKeys } from "#shared/nats/keys.ts";
import { verifyLedger } from "#shared/nats/ledger/verify-ledger.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";

const SHARDS = 8;

/** A server that can be taken away. */
export type Outage = Readonly<{
  /** SIGKILL; nothing listens until `start`. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
  /** SIGSTOP: it listens and never answers, until `resume`. */
  hang: () => void;
  resume: () => void;
}>;

export type AwayInstall = Readonly<{
  server: Server;
  statePath: string;
  nats: Outage;
  postgres: Outage;
  /** Both copies of the ledger, once the mirror has caught up. */
  verify: () => Promise<Verification>;
  close: () => Promise<void>;
}>;

type Running = { pid: number; died: AbortSignal; close: () => Promise<void> };

export async function openAwayInstall(): Promise<AwayInstall> {
  const resources = new Resources();
  try {
    const root = resources.add("folder", await mkdtemp(join(tmpdir(), "pistis-away-")), (folder) =>
      rm(folder, { recursive: true, force: true }),
    );
    const keys = newNatsKeys();
    const keysFile = join(root, "nats-keys.json");
    await writeFile(keysFile, JSON.stringify(keys));
    const nats = await outage(
      (port) =>
        startNatsServer({ stateDir: join(root, "nats"), keys, shards: SHARDS, log: silentLog, ...portOf(port) }),
      resources,
    );
    const password = newSecret();
    const postgres = await outage(
      (port) => startPostgres({ stateDir: root, password, log: silentLog, withParent: true, ...portOf(port) }),
      resources,
    );
    const dropped = { write: () => true };
    const environment = { NATS_URL: nats.url, PISTIS_NATS_KEYS: keysFile, DATABASE_URL: postgres.url };
    const context = {
      environment,
      cwd: root,
      terminal: openTerminal(dropped, dropped, {}),
      onStop: () => () => undefined,
    };
    const folder = stateFolder(join(root, "state"), {}, root);
    const install = await startInstall(context, folder, { port: 0, provider: "local", command: "a test" });
    resources.add("install", install, ({ close }) => close());
    // What a failed test left hanging would hang the close as well.
    resources.add("hanging servers", [nats.outage, postgres.outage], (all) => all.map(({ resume }) => resume()));
    const verify = () => verifyOnce(nats.url, keys.setup.seed, postgres.url, join(folder.path, "blobs"));
    return {
      server: { url: install.url, token: install.adminToken },
      statePath: folder.path,
      nats: nats.outage,
      postgres: postgres.outage,
      verify,
      close: () => resources.close(),
    };
  } catch (error) {
    await resources.close();
    throw error;
  }
}

function portOf(port: number | undefined): { port?: number } {
  return port === undefined ? {} : { port };
}

async function outage<Server extends Running & { url: string }>(
  startAt: (port?: number) => Promise<Server>,
  resources: Resources,
): Promise<{ url: string; outage: Outage }> {
  let server = await startAt();
  resources.add("server", undefined, () => server.close());
  const { url } = server;
  return {
    url,
    outage: {
      kill: async () => {
        const died = once(server.died, "abort");
        process.kill(server.pid, "SIGKILL");
        await died;
      },
      start: async () => {
        server = await startAt(Number(new URL(url).port));
      },
      hang: () => signalTree(server.pid, "SIGSTOP"),
      resume: () => signalTree(server.pid, "SIGCONT"),
    },
  };
}

/** PostgreSQL has a process for each connection. */
function signalTree(pid: number, signal: "SIGSTOP" | "SIGCONT"): void {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  for (const one of [pid, ...children.map(Number)]) process.kill(one, signal);
}

async function verifyOnce(natsUrl: string, seed: string, databaseUrl: string, blobs: string): Promise<Verification> {
  const nats = await connectNats({ url: natsUrl, user: "setup", seed, name: "test" });
  const database = await openDatabase(databaseUrl);
  try {
    const parts = { nats, shards: SHARDS, blobs: openBlobs(blobs), mirror: mirrorReader(database) };
    for (;;) {
      const found = await verifyLedger({ ...parts, onProgress: () => undefined });
      if (found.notYetMirrored === 0) return found;
    }
  } finally {
    await database.close();
    await nats.close();
  }
}
