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

export type Search = Readonly<{
  /** Where a downloaded server is kept; ~/.cache/pistis when absent. */
  cacheDir?: string | undefined;
  /** Commands and paths of installed servers, best first. */
  installed?: readonly string[];
  /** Folder that holds the machine's `etc`, for its distribution and its package sources. */
  root?: string;
}>;

/** Throws a Refusal `nats_server_missing` that says what to install. */
export async function findNatsServer(options: Search & { log: Log }): Promise<NatsServerBinary> {
  const { log, root = "/" } = options;
  const folder = cacheFolder(options);
  const present = await presentNatsServer(options);
  if (present?.durable) return said(log, present, "Using the nats-server that is on this machine");
  const failure = await downloadNatsServer({ folder, root, log }).catch(failureOf);
  const downloaded = await probe(join(folder, "nats-server"));
  if (downloaded?.durable) return said(log, downloaded, "Using the nats-server that was downloaded");
  if (present !== undefined) return warned(log, present);
  throw new Refusal(
    "nats_server_missing",
    `There is no nats-server, and it could not be downloaded: ${failure?.message ?? "the package holds an old one"}`,
    { next: NEXT },
  );
}

/** What a start would use without a download: an installed one, or the copy of an earlier start. An old one at worst. */
export async function presentNatsServer(options: Search = {}): Promise<NatsServerBinary | undefined> {
  const installed = await firstOf(options.installed ?? INSTALLED);
  if (installed?.durable) return installed;
  const copy = await probe(join(cacheFolder(options), "nats-server"));
  return copy?.durable ? copy : installed;
}

function cacheFolder({ cacheDir = join(homedir(), ".cache", "pistis") }: Search): string {
  return join(cacheDir, "nats-server");
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
