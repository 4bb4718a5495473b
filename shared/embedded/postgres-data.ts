// A new data folder, made to the side and renamed when complete, so that a death half-way leaves nothing that
// looks finished.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Fatal } from "#shared/errors/errors.ts";
import { pathExists } from "#shared/files/path-exists.ts";
import { syncFolder } from "#shared/files/sync-folder.ts";
import type { Log } from "#shared/service/log.ts";
import type { PostgresAccount } from "./postgres-account.ts";

export const POSTGRES_USER = "pistis";

const OPTIONS = [
  "--username",
  POSTGRES_USER,
  "--auth",
  "scram-sha-256",
  "--data-checksums",
  "--no-locale",
  "-E",
  "UTF8",
];

export type DataFolder = Readonly<{ folder: string; dataDir: string; password: string }>;

/** Does nothing when the folder is there already. */
export async function makeDataFolder(
  place: DataFolder,
  initdb: string,
  account: PostgresAccount,
  log: Log,
): Promise<void> {
  if (await pathExists(join(place.dataDir, "PG_VERSION"))) return;
  log.info({ folder: place.dataDir }, "making a new PostgreSQL data folder");
  const unfinished = join(place.folder, "data.unfinished");
  const passwordFile = join(place.folder, "password.unfinished");
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { mode: 0o700 });
  await account.own(unfinished);
  try {
    await writeFile(passwordFile, place.password, { mode: 0o600 });
    await account.own(passwordFile);
    await runToEnd([...account.prefix, initdb, "-D", unfinished, "--pwfile", passwordFile, ...OPTIONS]);
  } finally {
    await rm(passwordFile, { force: true });
  }
  await rename(unfinished, place.dataDir);
  await syncFolder(place.folder);
}

/** PostgreSQL's programs get no PG* variable of ours and no secret. */
export function postgresEnvironment(): NodeJS.ProcessEnv {
  return { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C", TZ: "UTC" };
}

async function runToEnd(commandLine: readonly string[]): Promise<void> {
  const [program = "", ...args] = commandLine;
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], cwd: "/", env: postgresEnvironment() });
  const output: Buffer[] = [];
  child.stdout.on("data", (bytes: Buffer) => output.push(bytes));
  child.stderr.on("data", (bytes: Buffer) => output.push(bytes));
  const [exitCode] = await once(child, "close");
  if (exitCode === 0) return;
  const text = Buffer.concat(output).toString().trim().slice(-2_000);
  throw new Fatal("postgres_init", `initdb ended with exit code ${exitCode}: ${text}`, {
    next: "A full disk, or a folder that its user cannot enter, are the usual reasons; start again when it is mended",
  });
}
