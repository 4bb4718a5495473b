// A server that outlived its parent (SIGKILL) still has the store open. It is stopped before a second one may start.
import { readFile, rm } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { runCommand } from "./run-command.ts";

type Process = Readonly<{ pid: number; parent: number; command: string }>;

const STOP_MS = 10_000;
const LOOK_EVERY_MS = 20;

/** Ends the process of the pid file when it is a server with this very configuration file and no living owner. */
export async function stopOrphan(options: { pidFile: string; configFile: string; log: Log }): Promise<void> {
  const pid = Number(await readFile(options.pidFile, "utf8").catch(() => ""));
  const found = pid > 1 ? await lookUp(pid) : undefined;
  if (found !== undefined && isOurs(found, options.configFile)) {
    if (await isOwned(found)) {
      throw new Refusal(
        "state_in_use",
        `Process ${found.parent} runs a nats-server (${pid}) on the same state directory`,
        {
          next: "Stop it first, or use another state directory.",
        },
      );
    }
    options.log.warn({ pid }, "Stopping the nats-server that an earlier start left behind");
    await end(pid, options.configFile);
  }
  await rm(options.pidFile, { force: true });
}

function isOurs(found: Process, configFile: string): boolean {
  return found.command.includes("nats-server") && found.command.includes(configFile);
}

/** An orphan's parent is init or a process that collects orphans, never one that runs Pistis. */
async function isOwned(found: Process): Promise<boolean> {
  if (found.parent <= 1) return false;
  const parent = await lookUp(found.parent);
  return parent !== undefined && /node|pistis|mocha/.test(parent.command);
}

async function end(pid: number, configFile: string): Promise<void> {
  process.kill(pid, "SIGTERM");
  for (let waitedMs = 0; waitedMs < STOP_MS; waitedMs += LOOK_EVERY_MS) {
    const found = await lookUp(pid);
    if (found === undefined || !isOurs(found, configFile)) return;
    await wait(LOOK_EVERY_MS);
  }
  throw new Fatal("nats_server_stuck", `The old nats-server ${pid} does not stop`, {
    next: `Look at it, then: kill -9 ${pid}`,
  });
}

async function lookUp(pid: number): Promise<Process | undefined> {
  return process.platform === "linux" ? fromProc(pid) : fromPs(pid);
}

async function fromProc(pid: number): Promise<Process | undefined> {
  try {
    const command = (await readFile(`/proc/${pid}/cmdline`, "utf8")).replaceAll("\0", " ");
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    if (/^State:\s+Z/m.test(status)) return undefined;
    return { pid, parent: Number(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? 0), command };
  } catch {
    return undefined;
  }
}

async function fromPs(pid: number): Promise<Process | undefined> {
  const answer = await runCommand("ps", ["-o", "ppid=,command=", "-p", String(pid)]).catch(() => "");
  const match = /^\s*(\d+)\s+(.*)$/m.exec(answer);
  return match === null ? undefined : { pid, parent: Number(match[1]), command: match[2] ?? "" };
}
