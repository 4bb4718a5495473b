// Through relay and pistisd alone: start of a sandbox, one command's round trip, a large output, and bytes out.
import { readFile } from "node:fs/promises";
import { newId } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { openSandboxes } from "../testing/sandboxes.ts";
import { bareEcho, bareSpawn, bareWebSocketTransferMs } from "./bare.ts";
import { median, type Row, row, timed } from "./row.ts";

const ROUND_TRIPS = 200;
const STARTS = 7;
const MIB = 1024 * 1024;
const OUTPUT_BYTES = 100 * MIB;
const PRODUCE = `yes 0123456789012345678901234567890123456789012345678901234567890 | head -c ${OUTPUT_BYTES}`;
const EXCERPT = { headBytes: 12 * 1024, tailBytes: 20 * 1024 };
const CHUNK_BYTES = 256 * 1024;
const BARE_SANDBOX = "bwrap --unshare-all --ro-bind / / --die-with-parent true";

export async function sandboxStartBench(): Promise<Row[]> {
  const sandboxes = await openSandboxes();
  try {
    await sandboxes.open();
    const starts: number[] = [];
    const bare: number[] = [];
    for (let index = 0; index < STARTS; index++) {
      starts.push(await timed(() => sandboxes.open()));
      bare.push(await timed(() => bareSpawn(BARE_SANDBOX)));
    }
    return [
      row("local sandbox: create → joined", "ms", { value: median(starts), baseline: median(bare) }, { atMost: 150 }),
    ];
  } finally {
    await sandboxes.close();
  }
}

export async function roundTripBench(): Promise<Row[]> {
  const sandboxes = await openSandboxes();
  const echo = await bareEcho();
  try {
    const { link } = await sandboxes.open();
    const commands: number[] = [];
    const spawns: number[] = [];
    const echoes: number[] = [];
    for (let index = 0; index < ROUND_TRIPS; index++) {
      commands.push(await timed(() => run(link, "true")));
      spawns.push(await timed(() => bareSpawn("true")));
      echoes.push(await timed(() => echo.echo()));
    }
    const value = median(commands);
    return [
      row("command round trip, beside a bare spawn", "ms", { value, baseline: median(spawns) }),
      row("command round trip, beside a bare WebSocket echo", "ms", { value, baseline: median(echoes) }),
    ];
  } finally {
    await echo.close();
    await sandboxes.close();
  }
}

export async function largeOutputBench(): Promise<Row[]> {
  const sandboxes = await openSandboxes();
  try {
    const { link } = await sandboxes.open();
    await run(link, "true");
    const daemon = await pidOfDaemon();
    await bareSpawn(PRODUCE);
    const times: number[] = [];
    const bare: number[] = [];
    const before = { here: process.memoryUsage().rss, daemon: await rssOf(daemon) };
    let highest = 0;
    const watch = setInterval(() => {
      highest = Math.max(highest, process.memoryUsage().rss);
    }, 5);
    let given = 0;
    let callId = "";
    for (let index = 0; index < 5; index++) {
      times.push(
        await timed(async () => {
          const result = await run(link, PRODUCE);
          given = Buffer.from(result.head, "base64").length + Buffer.from(result.tail, "base64").length;
          callId = result.callId;
        }),
      );
      bare.push(await timed(() => bareSpawn(PRODUCE)));
    }
    clearInterval(watch);
    const grown = Math.max(0, highest - before.here) + Math.max(0, (await peakOf(daemon)) - before.daemon);
    const out: number[] = [];
    const bareOut: number[] = [];
    let length = 0;
    for (let index = 0; index < 3; index++) {
      out.push(
        await timed(async () => {
          length = await drain(link.readOutput(callId, 0, OUTPUT_BYTES));
        }),
      );
      bareOut.push(await bareWebSocketTransferMs(length, CHUNK_BYTES));
    }
    const speed = (ms: number) => length / MIB / (ms / 1000);
    return [
      row("100 MiB of output", "ms", { value: median(times), baseline: median(bare) }, { atMost: 300 }),
      row("100 MiB of output: memory growth, server and pistisd", "MiB", { value: grown / MIB }, { atMost: 64 }),
      row("100 MiB of output: what the model gets", "KiB", { value: given / 1024 }),
      row(
        `${Math.round(length / MIB)} MiB of kept output read out`,
        "MiB/s",
        { value: speed(median(out)), baseline: speed(median(bareOut)) },
        { ratioAtLeast: 0.6 },
      ),
    ];
  } finally {
    await sandboxes.close();
  }
}

export async function run(link: SandboxLink, command: string) {
  const callId = newId("call");
  const result = await link.exec({ callId, command, timeoutMs: 60_000, background: false, excerpt: EXCERPT });
  if (result.outcome.status !== "exited") throw new Error(`${command} ended as ${result.outcome.status}`);
  return { ...result, callId };
}

async function drain(bytes: AsyncIterable<Uint8Array>): Promise<number> {
  let total = 0;
  for await (const chunk of bytes) total += chunk.byteLength;
  return total;
}

/** The newest process of this machine that is called pistisd. */
export async function pidOfDaemon(): Promise<number> {
  const { readdir } = await import("node:fs/promises");
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found: number[] = [];
  for (const pid of pids) {
    const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
    if (name.trim() === "pistisd") found.push(pid);
  }
  const newest = found.sort((a, b) => a - b).at(-1);
  if (newest === undefined) throw new Error("No pistisd runs");
  return newest;
}

export async function rssOf(pid: number): Promise<number> {
  return kib(await readFile(`/proc/${pid}/status`, "utf8"), "VmRSS");
}

async function peakOf(pid: number): Promise<number> {
  return kib(await readFile(`/proc/${pid}/status`, "utf8"), "VmHWM");
}

function kib(status: string, field: string): number {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(status);
  if (found?.[1] === undefined) throw new Error(`No ${field}`);
  return Number(found[1]) * 1024;
}
