// What root on the host sees of a sandbox: its processes with their environment, arguments and memory.
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from "node:fs";
import { Readable } from "node:stream";

const CHUNK_BYTES = 1024 * 1024;
const PAGE_BYTES = 4096;
/** Of /proc/PID/pagemap: https://docs.kernel.org/admin-guide/mm/pagemap.html */
const ENTRY_BYTES = 8;
const PAGES_AT_ONCE = 64 * 1024;
const NOTHING = Buffer.alloc(CHUNK_BYTES);

/** Every process in the same process namespace as `pid`. */
export function companionsOf(pid: number): number[] {
  const namespace = namespaceOf(pid);
  return processes().filter((other) => namespaceOf(other) === namespace);
}

/** The processes below `pid` that are in a process namespace of their own: a sandbox's, not its launcher's. */
export function guestsOf(pid: number): number[] {
  const own = namespaceOf(pid);
  const parents = new Map(processes().map((one) => [one, parentOf(one)]));
  const isBelow = (one: number): boolean => {
    for (let at: number | undefined = one; at !== undefined && at > 1; at = parents.get(at))
      if (at === pid) return true;
    return false;
  };
  return [...parents.keys()].filter(
    (one) => isBelow(one) && namespaceOf(one) !== own && namespaceOf(one) !== undefined,
  );
}

/** Environment, arguments and the names of mounts, as /proc shows them. */
export function* papersOf(pid: number): Generator<[string, Readable]> {
  for (const name of ["environ", "cmdline", "comm", "mountinfo", "status"]) {
    yield [`/proc/${pid}/${name}`, Readable.from([readFileSync(`/proc/${pid}/${name}`)])];
  }
}

/** All that the process holds in memory, without what it maps from files unchanged. */
export function memoryOf(pid: number): Readable {
  return Readable.from(chunksOf(pid));
}

type Region = Readonly<{ start: number; end: number }>;

function* chunksOf(pid: number): Generator<Buffer> {
  const memory = openSync(`/proc/${pid}/mem`, "r");
  const pagemap = openSync(`/proc/${pid}/pagemap`, "r");
  try {
    for (const region of regionsOf(pid)) {
      for (const { start, end } of presentIn(pagemap, region)) {
        for (let at = start; at < end; at += CHUNK_BYTES) {
          const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, end - at));
          const length = readAt(memory, chunk, at);
          if (length > 0 && !chunk.equals(NOTHING.subarray(0, chunk.byteLength))) yield chunk.subarray(0, length);
        }
      }
    }
  } finally {
    closeSync(memory);
    closeSync(pagemap);
  }
}

/**
 * The parts of the region that hold anything. To read the others would make the kernel give the process memory for them, of
 * which pistisd reserves more than its sandbox may have.
 */
function* presentIn(pagemap: number, { start, end }: Region): Generator<Region> {
  let from: number | undefined;
  for (let at = start; at < end; at += PAGES_AT_ONCE * PAGE_BYTES) {
    const pages = Math.min(PAGES_AT_ONCE, (end - at) / PAGE_BYTES);
    const entries = Buffer.alloc(pages * ENTRY_BYTES);
    const known = readSync(pagemap, entries, 0, entries.byteLength, (at / PAGE_BYTES) * ENTRY_BYTES) / ENTRY_BYTES;
    for (let page = 0; page < pages; page++) {
      // Bits 63 and 62: in memory, or swapped out.
      const isPresent = page < known && (entries[page * ENTRY_BYTES + ENTRY_BYTES - 1] ?? 0) >= 0x40;
      if (isPresent) from ??= at + page * PAGE_BYTES;
      else if (from !== undefined) {
        yield { start: from, end: at + page * PAGE_BYTES };
        from = undefined;
      }
    }
  }
  if (from !== undefined) yield { start: from, end };
}

function regionsOf(pid: number): Region[] {
  return readFileSync(`/proc/${pid}/maps`, "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, start = "", end = "", rights = "", inode = ""] =
        /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)/.exec(line) ?? [];
      if (!rights.startsWith("r") || line.includes("[v")) return [];
      if (inode !== "0" && !rights.includes("w")) return [];
      return [{ start: Number.parseInt(start, 16), end: Number.parseInt(end, 16) }];
    });
}

/** 0 for what cannot be read, such as the pages of a guard. */
function readAt(memory: number, chunk: Buffer, position: number): number {
  try {
    return readSync(memory, chunk, 0, chunk.byteLength, position);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EIO") return 0;
    throw error;
  }
}

function processes(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function namespaceOf(pid: number): string | undefined {
  return ifThere(() => readlinkSync(`/proc/${pid}/ns/pid`));
}

function parentOf(pid: number): number | undefined {
  const stat = ifThere(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  return stat === undefined ? undefined : Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

const NOT_SHOWN = new Set(["ENOENT", "ESRCH", "EACCES"]);

/** Undefined when the process has ended, or is one that even root is not shown: none that a sandbox could have started. */
function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof Error && "code" in error && NOT_SHOWN.has(String(error.code))) return undefined;
    throw error;
  }
}
