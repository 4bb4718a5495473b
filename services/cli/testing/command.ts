// The command line as a process of its own, as a person starts it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Server } from "../client/api.ts";
import { readAdminToken } from "../state/secrets.ts";
import { stateFolder } from "../state/state-folder.ts";

const PISTIS = join(import.meta.dirname, "..", "pistis");

export type Ended = Readonly<{ exitCode: number | null; out: string; err: string }>;

export type Command = Readonly<{
  child: ChildProcess;
  /** Resolves when standard output and error together hold this. Rejects when the command ends before that. */
  says: (text: string) => Promise<void>;
  ended: Promise<Ended>;
}>;

export type Folder = Readonly<{
  path: string;
  /** Starts a command in the folder, with the state folder `state` in it. */
  start: (args: readonly string[], environment?: NodeJS.ProcessEnv) => Command;
  /** Runs one to its end. */
  run: (args: readonly string[], environment?: NodeJS.ProcessEnv) => Promise<Ended>;
  /** Starts `pistis dev` and resolves when it is ready. */
  dev: () => Promise<Command & { server: Server }>;
  remove: () => Promise<void>;
}>;

/** A working folder of its own for commands. Its sandboxes are local, whether or not there is a Docker. */
export async function newFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), "pistis-cli-"));
  await writeFile(join(path, "pistis.json"), JSON.stringify({ sandboxes: { provider: "local" } }));
  const start: Folder["start"] = (args, environment = {}) => startCommand(path, args, environment);
  return {
    path,
    start,
    run: (args, environment) => start(args, environment).ended,
    dev: async () => {
      const command = start(["dev", "--port", "0"]);
      await command.says("token  ");
      return { ...command, server: await serverOf(path) };
    },
    remove: () => rm(path, { recursive: true, force: true }),
  };
}

function startCommand(cwd: string, args: readonly string[], environment: NodeJS.ProcessEnv): Command {
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, PISTIS_STATE: join(cwd, "state"), ...environment };
  const child = spawn(PISTIS, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  const waiting = new Set<() => void>();
  const look = () => {
    for (const waiter of [...waiting]) waiter();
  };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
    look();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
    look();
  });
  const ended = once(child, "close").then(([exitCode]): Ended => ({ exitCode, out, err }));
  const says = async (text: string) => {
    const ends = ended.then(() => "ended" as const);
    while (!(out + err).includes(text)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.add(resolve);
      if ((await Promise.race([promise, ends])) === "ended" && !(out + err).includes(text)) {
        throw new Error(`It ended without ${JSON.stringify(text)}:\n${out}${err}`);
      }
      waiting.delete(resolve);
    }
  };
  return { child, says, ended };
}

async function serverOf(path: string): Promise<Server> {
  const folder = stateFolder("state", {}, path);
  const token = await readAdminToken(folder);
  const { url } = JSON.parse(readFileSync(folder.server, "utf8"));
  if (token === undefined) throw new Error("There is no admin token");
  return { url, token };
}

/** SIGKILL of the process and of everything below it, its embedded servers and sandboxes included. */
export async function killAll({ child, ended }: Command): Promise<void> {
  const all = [child.pid ?? 0, ...descendantsOf(child.pid ?? 0)];
  for (const pid of all) kill(pid);
  await ended;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

function descendantsOf(root: number): number[] {
  const parents = readdirSync("/proc").flatMap((name) =>
    /^\d+$/.test(name) ? [[Number(name), parentOf(name)] as const] : [],
  );
  const found = [root];
  for (const pid of found) found.push(...parents.flatMap(([child, parent]) => (parent === pid ? [child] : [])));
  return found.slice(1);
}

function parentOf(pid: string): number {
  try {
    return Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}
