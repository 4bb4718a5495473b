// What an install and one sandbox cost when nothing happens: `pistis dev` as a process of its own.
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { startDevProcess } from "../testing/dev-process.ts";
import { openTestSession } from "../testing/running-install.ts";
import { type Row, row } from "./row.ts";
import { pidOfDaemon } from "./sandbox-link.ts";

const SETTLE_MS = 15_000;
const KIB_PER_MIB = 1024;

export async function idleMemoryBench(): Promise<Row[]> {
  const empty = spawn(process.execPath, ["-e", "setInterval(() => undefined, 1000)"], { stdio: "ignore" });
  const dev = await startDevProcess();
  try {
    const session = await openTestSession(dev.server);
    await session.post("$ true");
    await session.event("TurnEnded");
    await session.close();
    await delay(SETTLE_MS);
    const daemon = await pidOfDaemon();
    return [
      row("pistis dev, idle: resident", "MiB", {
        value: await mib(dev.pid, "VmRSS"),
        baseline: await mib(empty.pid, "VmRSS"),
      }),
      row("one pistisd, idle: its own memory", "MiB", { value: await mib(daemon, "Private_Dirty", "smaps_rollup") }),
      row("one pistisd, idle: resident", "MiB", { value: await mib(daemon, "VmRSS") }),
    ];
  } finally {
    empty.kill();
    await dev.close();
  }
}

async function mib(pid: number | undefined, field: string, file = "status"): Promise<number> {
  const text = await readFile(`/proc/${pid}/${file}`, "utf8");
  const found = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text);
  if (found?.[1] === undefined) throw new Error(`No ${field} of process ${pid}`);
  return Number(found[1]) / KIB_PER_MIB;
}
