// A compiled pistisd for tests, alone or in namespaces of its own, connected to a test's relay.
import { type ChildProcess, spawn } from "node:child_process";
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { newSecret } from "#shared/ids/ids.ts";
import type { PeerChannel } from "./peer-channel.ts";
import { RelayPeer } from "./relay-peer.ts";

export const PISTISD_FOLDER = resolve(import.meta.dirname, "../../../dist/pistisd");

export type SandboxOptions = Readonly<{
  /** In user, process, mount and network namespaces; the entry is process 1. For everything that kills. */
  isolated?: boolean;
  /** Isolated only: then it runs as another user, because the kernel counts no processes of root's. */
  processesMax?: number;
  /** Isolated only: the workspace is in memory and has this size. */
  workspaceBytes?: number;
  /** The same of the folder for the daemon's state. */
  stateBytes?: number;
  environment?: Readonly<Record<string, string>>;
  program?: string;
  /** The token comes in a file, as the entry hands it on; for programs that are started without the entry. */
  handsOverToken?: boolean;
  /** Another one than the relay takes. */
  token?: string;
  /** In front of the program, such as a limit. */
  prefix?: readonly string[];
}>;

export class TestSandbox {
  readonly folder = mkdtempSync(join(tmpdir(), "pistisd-"));
  readonly workspace = join(this.folder, "workspace");
  readonly state = join(this.folder, "state");
  readonly relay: RelayPeer;
  readonly options: SandboxOptions;
  daemon: ChildProcess | undefined;
  log = "";
  #callNumber = 0;

  constructor(options: SandboxOptions) {
    this.options = options;
    mkdirSync(this.workspace);
    mkdirSync(this.state);
    mkdirSync(join(this.folder, "run"));
    this.relay = new RelayPeer({
      socketPath: join(this.folder, "run/relay.sock"),
      joinToken: newSecret(),
      pass: newSecret(),
    });
  }

  start(): ChildProcess {
    const [program = "", ...args] = this.#command();
    const daemon = spawn(program, args, { env: this.#environment(), stdio: ["ignore", "pipe", "pipe"] });
    daemon.stdout?.on("data", (text) => (this.log += String(text)));
    daemon.stderr?.on("data", (text) => (this.log += String(text)));
    this.daemon = daemon;
    return daemon;
  }

  newCallId(): string {
    return `cal_${++this.#callNumber}`;
  }

  /** As a crash: nothing is said, nothing is cleaned up. The entry starts the daemon again. */
  killDaemon(): void {
    process.kill(daemonPid(this), "SIGKILL");
  }

  stop(): Promise<void> {
    return stopChild(this.daemon);
  }

  path(...parts: string[]): string {
    return join(this.workspace, ...parts);
  }

  async close(): Promise<void> {
    await stopChild(this.daemon);
    await this.relay.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #command(): string[] {
    const program = this.options.program ?? (this.options.isolated === true ? "pistisd-entry" : "pistisd");
    const prefix = this.options.prefix ?? [];
    if (this.options.isolated !== true) return [...prefix, join(PISTISD_FOLDER, program)];
    const binds = ["usr", "etc", "bin", "lib", "lib64", "sbin"].flatMap((name) => [
      "--ro-bind-try",
      `/${name}`,
      `/${name}`,
    ]);
    return [
      ...this.#limits(),
      ...[
        "bwrap",
        "--unshare-user",
        "--unshare-all",
        "--disable-userns",
        "--die-with-parent",
        "--as-pid-1",
        "--clearenv",
        ...binds,
      ],
      ...["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"],
      ...["--ro-bind", this.#programs(), "/opt/pistis", ...this.#workspaceMount()],
      ...[...this.#stateMount(), "--ro-bind", join(this.folder, "run"), "/run/pistis"],
      ...Object.entries(this.#guestEnvironment()).flatMap(([name, value]) => ["--setenv", name, value]),
      ...["--", ...prefix, `/opt/pistis/${program}`],
    ];
  }

  /** Another user may not be able to reach the checkout (a home folder of root's), so it gets a copy of its own. */
  #programs(): string {
    if (this.options.processesMax === undefined) return PISTISD_FOLDER;
    const copy = join(this.folder, "programs");
    if (!existsSync(copy)) cpSync(PISTISD_FOLDER, copy, { recursive: true, verbatimSymlinks: true });
    return copy;
  }

  #workspaceMount(): string[] {
    const { workspaceBytes } = this.options;
    if (workspaceBytes === undefined) return ["--bind", this.workspace, "/workspace"];
    return ["--size", String(workspaceBytes), "--tmpfs", "/workspace"];
  }

  #stateMount(): string[] {
    const { stateBytes } = this.options;
    if (stateBytes === undefined) return ["--bind", this.state, "/var/lib/pistisd"];
    return ["--size", String(stateBytes), "--tmpfs", "/var/lib/pistisd"];
  }

  #limits(): string[] {
    const { processesMax } = this.options;
    if (processesMax === undefined) return [];
    const user = this.#giveAway();
    const as = [`--reuid=${user}`, `--regid=${user}`, "--clear-groups"];
    return ["setpriv", ...as, "prlimit", `--nproc=${processesMax}:${processesMax}`];
  }

  /** To a user of its own, so that sandboxes do not count each other's processes. */
  #giveAway(): number {
    const user = 100_000 + (process.pid % 100_000);
    for (const folder of [this.folder, this.workspace, this.state, join(this.folder, "run")])
      chownSync(folder, user, user);
    chownSync(this.relay.options.socketPath, user, user);
    return user;
  }

  #guestEnvironment(): Record<string, string> {
    return {
      PATH: "/usr/local/bin:/usr/bin:/bin",
      HOME: "/tmp",
      PISTIS_RELAY: "unix:/run/pistis/relay.sock",
      ...this.#token(),
      ...this.options.environment,
    };
  }

  #environment(): NodeJS.ProcessEnv {
    const paths = { PATH: process.env["PATH"], HOME: this.folder };
    if (this.options.isolated === true) return paths;
    return {
      ...paths,
      PISTIS_RELAY: `unix:${this.relay.options.socketPath}`,
      PISTISD_STATE: this.state,
      PISTISD_ROOT: this.workspace,
      ...this.#token(),
      ...this.options.environment,
    };
  }

  #token(): Record<string, string> {
    const token = this.options.token ?? this.relay.options.joinToken;
    if (this.relay.tokenIsSpent) return {};
    if (this.options.handsOverToken !== true) return { PISTIS_JOIN_TOKEN: token };
    const file = join(this.folder, "join-token");
    writeFileSync(file, token, { mode: 0o600 });
    return { PISTIS_JOIN_TOKEN_FILE: file };
  }
}

/** Starts a sandbox and waits until it has joined. */
export async function openSandbox(options: SandboxOptions = {}): Promise<TestSandbox> {
  if (!existsSync(join(PISTISD_FOLDER, "pistisd"))) throw new Error("pistisd is not built: npm run build:pistisd");
  const sandbox = new TestSandbox({ program: "pistisd-entry", ...options });
  await sandbox.relay.open();
  const connected = sandbox.relay.nextConnection();
  const daemon = sandbox.start();
  const ended = new Promise<never>((_, reject) => {
    daemon.once("exit", (code) => reject(new Error(`pistisd ended with ${code}: ${sandbox.log}`)));
  });
  await Promise.race([connected, ended]);
  return sandbox;
}

/** A channel of a brain that has said hello. */
export async function openBrain(sandbox: TestSandbox, epoch = 1): Promise<PeerChannel> {
  const channel = sandbox.relay.openChannel();
  await channel.brain(epoch);
  return channel;
}

export async function stopChild(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

/** The daemon itself, behind the entry that started it. */
export function daemonPid(sandbox: TestSandbox): number {
  const entry = sandbox.daemon?.pid ?? 0;
  const children = readFileSync(`/proc/${entry}/task/${entry}/children`, "latin1").trim();
  return children === "" ? entry : Number(children.split(" ")[0]);
}

/** Resident memory of a process in bytes. */
export function residentBytes(pid: number): number {
  const found = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
  return Number(found?.[1] ?? 0) * 1024;
}
