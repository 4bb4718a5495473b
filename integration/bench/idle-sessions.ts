// What sessions cost a brain that has worked on them and does not any more: what its heap holds after a collection, its memory and
// its processor time, with many idle sessions and before there was any. The brain is a process of its own.
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { WARM_MS } from "#services/brain/dispatch/warm-records.ts";
import { stablePort } from "../testing/processes/ports.ts";
import { openTestSession } from "../testing/running-install.ts";
import { openServiceProcesses, type ServiceProcesses } from "../testing/service-processes.ts";
import { type Inspector, openInspector } from "./inspector.ts";
import { type Row, row } from "./row.ts";

const SESSIONS = 1_000;
const WARM_UP = 200;
const AT_ONCE = 20;
const CPU_MS = 10_000;
/** A fold is kept for WARM_MS and forgotten at the sweep after that. */
const FORGOTTEN_MS = WARM_MS * 1.3;
const KIB = 1024;
const TICKS_PER_SECOND = 100;

type Cost = Readonly<{ heldKiB: number; residentKiB: number; cpuMsPerSecond: number }>;

export async function idleSessionsBench(): Promise<Row[]> {
  const port = await stablePort();
  const install = await openServiceProcesses({
    brains: 1,
    environments: { brain: { NODE_OPTIONS: `--inspect=127.0.0.1:${port}` } },
  });
  try {
    await install.startAll();
    // Every turn asks for a sandbox, which would come, join and be probed while the brain is measured.
    await install.kill("scheduler");
    const inspector = await openInspector(port);
    // Code that is compiled and buffers that grow with the first sessions are no session's memory.
    await workOnce(install, WARM_UP);
    await delay(FORGOTTEN_MS);
    const before = await costOf(install, inspector);
    await workOnce(install, SESSIONS);
    await delay(FORGOTTEN_MS);
    const after = await costOf(install, inspector);
    await inspector.close();
    return rowsOf(before, after);
  } finally {
    await install.close();
  }
}

function rowsOf(before: Cost, after: Cost): Row[] {
  const each = (of: (cost: Cost) => number) => (of(after) - of(before)) / SESSIONS;
  return [
    row("idle session: held by its brain", "KiB", { value: each(({ heldKiB }) => heldKiB) }, { atMost: 0.5 }),
    row(`brain with ${SESSIONS} idle sessions: held`, "KiB", {
      ...{ value: after.heldKiB, baseline: before.heldKiB },
    }),
    row(`brain with ${SESSIONS} idle sessions: resident`, "KiB", {
      ...{ value: after.residentKiB, baseline: before.residentKiB },
    }),
    row(`brain with ${SESSIONS} idle sessions: processor`, "ms/s", {
      ...{ value: after.cpuMsPerSecond, baseline: before.cpuMsPerSecond },
    }),
  ];
}

/** Each has a turn without a command, which ends without a sandbox. */
async function workOnce(install: ServiceProcesses, count: number): Promise<void> {
  let left = count;
  const worker = async () => {
    while (left-- > 0) {
      const session = await openTestSession(install.server, { message: { text: "> say hello" } });
      await session.event("TurnEnded");
      await session.close();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function costOf(install: ServiceProcesses, inspector: Inspector): Promise<Cost> {
  const pid = install.pid("brain-1");
  const [ticks, from] = [await ticksOf(pid), performance.now()];
  await delay(CPU_MS);
  const cpuMs = (((await ticksOf(pid)) - ticks) / TICKS_PER_SECOND) * 1_000;
  const cpuMsPerSecond = cpuMs / ((performance.now() - from) / 1_000);
  return { cpuMsPerSecond, heldKiB: (await inspector.heldBytes()) / KIB, residentKiB: await residentKiB(pid) };
}

/** User and system time; after the name, which may hold anything, so the fields are counted from its bracket. */
async function ticksOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

async function residentKiB(pid: number): Promise<number> {
  const [, kib] = /^VmRSS:\s+(\d+) kB/m.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [];
  if (kib === undefined) throw new Error(`No VmRSS of process ${pid}`);
  return Number(kib);
}
