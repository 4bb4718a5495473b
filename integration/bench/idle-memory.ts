// What an install and one sandbox cost when nothing happens: `pistis dev` as a process of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { openTestSession } from "../testing/running-install.ts";
import { type Row, row } from "./row.ts";
import { pidOfDaemon } from "./sandbox-link.ts";

const PISTIS = resolve(import.meta.dirname, "../../services/cli/pistis");
const SETTLE_MS = 15_000;
const MIB = 1024;

export async function idleMemoryBench(): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-idle-"));
  const empty = spawn(process.execPath, ["-e", "setInterval(() => undefined, 1000)"], { stdio: "ignore" });
  const dev = spawn(PISTIS, ["dev", "--state", join(folder, "state"), "--port", "0"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const server = await accessOf(dev);
    const session = await openTestSession(server);
    await session.post("$ true");
    await session.event("TurnEnded");
    await session.close();
    await delay(SETTLE_MS);
    const daemon = await pidOfDaemon();
    return [
      row("pistis dev, idle: resident", "MiB", {
        value: (await kib(dev.pid, "VmRSS")) / MIB,
        baseline: (await kib(empty.pid, "VmRSS")) / MIB,
      }),
      row("one pistisd, idle: its own memory", "MiB", {
        value: (await kib(daemon, "Private_Dirty", "smaps_rollup")) / MIB,
      }),
      row("one pistisd, idle: resident", "MiB", { value: (await kib(daemon, "VmRSS")) / MIB }),
    ];
  } finally {
    empty.kill();
    const ended = once(dev, "exit");
    dev.kill("SIGTERM");
    await ended;
    await rm(folder, { recursive: true, force: true });
  }
}

/** The launcher becomes the server (exec), so its process id is the server's. */
async function accessOf(dev: ChildProcess): Promise<{ url: string; token: string }> {
  if (dev.stdout === null) throw new Error("pistis dev has no output");
  const said: { url?: string; token?: string } = {};
  for await (const line of createInterface({ input: dev.stdout })) {
    const [name, value] = line.trim().split(/\s+/);
    if (name === "URL" && value !== undefined) said.url = value;
    if (name === "token" && value !== undefined) said.token = value;
    if (said.url !== undefined && said.token !== undefined) return { url: said.url, token: said.token };
  }
  throw new Error("pistis dev ended before it was ready");
}

async function kib(pid: number | undefined, field: string, file = "status"): Promise<number> {
  const text = await readFile(`/proc/${pid}/${file}`, "utf8");
  const found = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text);
  if (found?.[1] === undefined) throw new Error(`No ${field} of process ${pid}`);
  return Number(found[1]);
}
