// `pistis dev` as a process of its own, as people run it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Server } from "#services/cli/client/api.ts";
import type { ConfigFile } from "./running-install.ts";

const PISTIS = resolve(import.meta.dirname, "../../services/cli/pistis");

export type DevProcess = Readonly<{
  server: Server;
  pid: number;
  /** Everything of the install, its sandboxes' disks included. */
  statePath: string;
  close: () => Promise<void>;
}>;

/** Starts it in a folder of its own, with this pistis.json and these variables more; resolves when it is ready. */
export async function startDevProcess(
  config: ConfigFile = {},
  environment: Readonly<Record<string, string>> = {},
): Promise<DevProcess> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-dev-"));
  const sandboxes = { provider: "local", ...config.sandboxes };
  await writeFile(join(folder, "pistis.json"), JSON.stringify({ ...config, sandboxes }));
  // The launcher becomes the server (exec), so its process id is the server's.
  const statePath = join(folder, "state");
  const child = spawn(PISTIS, ["dev", "--state", statePath, "--port", "0"], {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const close = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    return { server: await accessOf(child), pid: child.pid ?? 0, statePath, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function accessOf(child: ChildProcess): Promise<Server> {
  if (child.stdout === null) throw new Error("pistis dev has no output");
  const said: { url?: string; token?: string } = {};
  for await (const line of createInterface({ input: child.stdout })) {
    const [name, value] = line.trim().split(/\s+/);
    if (name === "URL" && value !== undefined) said.url = value;
    if (name === "token" && value !== undefined) said.token = value;
    if (said.url !== undefined && said.token !== undefined) {
      child.stdout.resume();
      return { url: said.url, token: said.token };
    }
  }
  throw new Error("pistis dev ended before it was ready");
}
