// What the tests cannot do without, each started and asked once: a test run on a machine that has only half of it would
// be green for the wrong reason. Fails with the reason and the next step.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findNatsServer } from "#shared/embedded/find-nats-server.ts";
import { startNatsServer } from "#shared/embedded/nats-server.ts";
import { startPostgres } from "#shared/embedded/postgres.ts";
import { Fatal, failureOf } from "#shared/errors/errors.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { newNatsKeys } from "#shared/nats/keys.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";

const run = promisify(execFile);
const DOCKER_MS_MAX = 60_000;
const SMALLEST_IMAGE = "pistis-base/musl";
const setUp = "infra/setup.sh --docker";

async function checkNats(stateDir: string, resources: Resources): Promise<string> {
  const { version, durable } = await findNatsServer({ log: silentLog });
  if (!durable) {
    throw new Fatal("nats_not_durable", `nats-server ${version} knows no sync_interval: always`, {
      next: "Install nats-server 2.10 or later",
    });
  }
  const keys = newNatsKeys();
  const server = await startNatsServer({ stateDir, keys, shards: 2, log: silentLog });
  resources.add("nats-server", server, ({ close }) => close());
  return `nats-server ${version}`;
}

async function checkPostgres(stateDir: string, resources: Resources): Promise<string> {
  const server = await startPostgres({ stateDir, password: newSecret(), log: silentLog, withParent: true });
  resources.add("PostgreSQL", server, ({ close }) => close());
  return "PostgreSQL";
}

async function checkDocker(): Promise<string> {
  const options = { timeout: DOCKER_MS_MAX };
  const hello = ["run", "--rm", "--network", "none", "--pull", "never", SMALLEST_IMAGE, "echo", "hello"];
  const { stdout } = await run("docker", hello, options).catch((cause: unknown) => {
    throw new Fatal("docker_missing", `Docker runs no container: ${failureOf(cause).message}`, { next: setUp });
  });
  if (stdout !== "hello\n") throw new Fatal("docker_broken", "A container does not say hello", { next: setUp });
  const engine = await run("docker", ["version", "--format", "{{.Server.Version}}"], options);
  return `Docker ${engine.stdout.trim()}`;
}

const resources = new Resources();
try {
  const folder = await mkdtemp(join(tmpdir(), "pistis-check-"));
  resources.add("folder", folder, (path) => rm(path, { recursive: true, force: true }));
  const found = [await checkNats(folder, resources), await checkPostgres(folder, resources), await checkDocker()];
  console.log(`servers: ${found.join(", ")}`);
} catch (error) {
  const { message, next } = failureOf(error);
  console.error(`servers: ${message}\n  next: ${next ?? setUp}`);
  process.exitCode = 1;
} finally {
  await resources.close();
}
