// Pipes for the output of commands. They are real pipes, because a program that opens /dev/stderr fails on the
// sockets that Node and Bun use, and they are read into one buffer that is used again and again, so that
// 100 MB of output leave no garbage. The kernel says with SIGIO that there is something to read.
import { closeSync } from "node:fs";
import { addressOf, type Libc } from "./libc.ts";

const O_CLOEXEC = 0o2000000;
const O_NONBLOCK_ASYNC = 0o4000n | 0o20000n;
const F_SETFL = 4;
const F_SETOWN = 8;
const F_SETPIPE_SZ = 1031;
const FIONREAD = 0x541bn;
const PIPE_BYTES = 512 * 1024;
const READ_BYTES = 256 * 1024;
/** Reads of one pipe before the others have their turn. */
const READS_IN_A_ROW = 8;

export type OutputListener = Readonly<{
  /** The bytes are only good until this returns. */
  onOutput: (bytes: Uint8Array) => void;
  /** Nobody has the pipe open for writing any more. */
  onOutputEnd: () => void;
}>;

export type OutputPipe = Readonly<{
  /** For the child; to be closed here once it has it. */
  writable: number;
  /** Reads what has been written up to now, at least. */
  readNow: () => void;
  /** Ends the reading whoever still writes. */
  close: () => void;
}>;

export type OutputPipes = Readonly<{ open: (listener: OutputListener) => OutputPipe }>;

export function openOutputPipes(libc: Libc): OutputPipes {
  const buffer = new Uint8Array(READ_BYTES);
  const address = addressOf(buffer);
  const reading = new Set<() => void>();
  process.on("SIGIO", () => {
    for (const read of [...reading]) read();
  });

  const open = (listener: OutputListener): OutputPipe => {
    const { readable, writable } = openPipe(libc);
    let isOpen = true;
    const close = () => {
      if (!isOpen) return;
      isOpen = false;
      reading.delete(readOn);
      closeSync(readable);
      listener.onOutputEnd();
    };
    /** Bytes read: 0 when there are none now, or never any more. */
    const readOnce = (): number => {
      if (!isOpen) return 0;
      const count = libc.read(readable, address, BigInt(READ_BYTES));
      if (count > 0) listener.onOutput(buffer.subarray(0, count));
      if (count === 0) close();
      return Math.max(0, count);
    };
    const readOn = () => {
      for (let reads = 0; reads < READS_IN_A_ROW; reads++) {
        if (readOnce() === 0) return;
      }
      setImmediate(readOn);
    };
    const readNow = () => {
      let left = isOpen ? unreadBytes(libc, readable) : 0;
      // One read more, to see the end when nothing follows.
      for (let count = 1; count > 0 && left >= 0; left -= count) {
        count = readOnce();
        if (left === 0) return;
      }
    };
    reading.add(readOn);
    return { writable, readNow, close };
  };
  return { open };
}

function openPipe(libc: Libc) {
  const ends = new Int32Array(2);
  if (libc.pipe2(addressOf(ends), O_CLOEXEC) !== 0) throw new Error("No pipe could be opened: too many open files");
  const [readable = -1, writable = -1] = ends;
  // A smaller pipe, where the kernel allows no more, only means more reads.
  libc.fcntl(readable, F_SETPIPE_SZ, BigInt(PIPE_BYTES));
  libc.fcntl(readable, F_SETOWN, BigInt(process.pid));
  libc.fcntl(readable, F_SETFL, O_NONBLOCK_ASYNC);
  return { readable, writable };
}

function unreadBytes(libc: Libc, readable: number): number {
  const count = new Int32Array(1);
  return libc.ioctl(readable, FIONREAD, addressOf(count)) === 0 ? (count[0] ?? 0) : 0;
}
