// A Docker engine of the test's own, beside the machine's: to kill, and to give other settings. It has no bridge and
// touches no firewall.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { type Cli, dockerCli } from "./docker-guests.ts";

const execute = promisify(execFile);

const UP_MS_MAX = 60_000;
const LOOK_MS = 50;

export type OwnEngine = Readonly<{
  host: string;
  cli: Cli;
  /** Copies an image from the machine's own engine. */
  load: (image: string) => Promise<void>;
  /** SIGKILL: its containers go on until it starts again. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
  close: () => Promise<void>;
}>;

export async function openOwnEngine(options: readonly string[] = []): Promise<OwnEngine> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-dockerd-"));
  const host = `unix://${join(folder, "docker.sock")}`;
  const cli = dockerCli(host);
  let daemon = await startDaemon(folder, options, cli);
  return {
    ...{ host, cli },
    load: (image) => copyImage(image, host),
    kill: () => ended(daemon, "SIGKILL"),
    start: async () => {
      daemon = await startDaemon(folder, options, cli);
    },
    close: async () => {
      await ended(daemon, "SIGTERM");
      await endLeftovers(folder);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startDaemon(folder: string, options: readonly string[], cli: Cli): Promise<ChildProcess> {
  const pidFile = join(folder, "docker.pid");
  // Those of a daemon that was killed are believed while a process, or the remains of one, has that number.
  await rm(pidFile, { force: true });
  await rm(join(folder, "exec", "containerd", "containerd.pid"), { force: true });
  const places = ["--data-root", join(folder, "data"), "--exec-root", join(folder, "exec"), "--pidfile", pidFile];
  const closed = ["--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"];
  // In a network namespace of its own: an engine without a bridge deletes the machine's docker0.
  const daemon = spawn(
    "unshare",
    ["--net", "dockerd", "--host", `unix://${join(folder, "docker.sock")}`, ...places, ...closed, ...options],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  daemon.stderr.pipe(createWriteStream(join(folder, "log")));
  const deadline = Date.now() + UP_MS_MAX;
  while (!(await answers(cli))) {
    if (daemon.exitCode !== null || Date.now() > deadline) {
      throw new Error(`dockerd does not answer:\n${(await readFile(join(folder, "log"), "utf8")).slice(-2_000)}`);
    }
    await pause(LOOK_MS);
  }
  return daemon;
}

async function answers(cli: Cli): Promise<boolean> {
  return cli("version").then(
    () => true,
    () => false,
  );
}

async function ended(daemon: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  const exited = once(daemon, "exit");
  daemon.kill(signal);
  await exited;
}

/** What a daemon that was killed leaves when no later one has taken it over: containerd, its shims, and containers. */
async function endLeftovers(folder: string): Promise<void> {
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number)) {
    if (!(await textOf(`/proc/${pid}/cmdline`)).includes(folder)) continue;
    const children = (await textOf(`/proc/${pid}/task/${pid}/children`)).split(" ").filter((child) => child !== "");
    for (const one of [...children.map(Number), pid]) process.kill(one, "SIGKILL");
  }
  const mounts = (await textOf("/proc/self/mountinfo")).split("\n").map((line) => line.split(" ")[4] ?? "");
  const own = mounts
    .filter((path) => path.startsWith(`${folder}/`))
    .sort()
    .reverse();
  for (const path of own) await execute("umount", ["--lazy", path]);
}

function textOf(file: string): Promise<string> {
  return readFile(file, "utf8").catch(() => "");
}

async function copyImage(image: string, host: string): Promise<void> {
  const save = spawn("docker", ["save", image], { stdio: ["ignore", "pipe", "inherit"] });
  const load = spawn("docker", ["--host", host, "load"], { stdio: ["pipe", "ignore", "inherit"] });
  save.stdout.pipe(load.stdin);
  const [code] = await once(load, "exit");
  if (code !== 0) throw new Error(`${image} could not be copied`);
}
