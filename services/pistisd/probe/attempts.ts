// Makes many attempts at once and waits for all of them together, within one time limit.
import type { ProbeOutcome } from "#schemas/wire/probe.ts";
import type { SocketAddress } from "./address-bytes.ts";
import type { Dialogue } from "./dialogue.ts";
import { POLLIN, POLLOUT, type Sockets, SocketType } from "./libc-sockets.ts";

export type Attempt = Readonly<{
  type: keyof typeof SocketType;
  address: SocketAddress;
  /** Absent: that a connection stands is all there is to see. */
  dialogue?: Dialogue;
}>;

type Open = {
  readonly attempt: Attempt;
  readonly descriptor: number;
  connected: boolean;
  received: Uint8Array;
};

const RECEIVED_BYTES_MAX = 16 * 1024;
const CHUNK_BYTES = 2_048;

const Errno = { again: 11, brokenPipe: 32, connectionReset: 104, inProgress: 115 } as const;
const REFUSED = new Set([111]);
/** Nothing left this machine: no permission, no such family, no address, no way to the network or the host. */
const UNREACHABLE = new Set([1, 13, 97, 99, 100, 101, 112, 113]);
const TIMED_OUT = 110;

/** One outcome for each attempt, in order. Its sockets are the process's until it ends. */
export function makeAttempts(sockets: Sockets, attempts: readonly Attempt[], timeoutMs: number): ProbeOutcome[] {
  const outcomes = new Map<Attempt, ProbeOutcome>();
  const open = new Set<Open>();
  for (const attempt of attempts) {
    const opened = begin(sockets, attempt);
    if (typeof opened === "string") outcomes.set(attempt, opened);
    else open.add(opened);
  }
  const deadline = performance.now() + timeoutMs;
  for (let leftMs = timeoutMs; open.size > 0 && leftMs > 0; leftMs = deadline - performance.now()) {
    const waiting = [...open].map(({ descriptor, connected }) => ({
      descriptor,
      events: connected ? POLLIN : POLLOUT,
    }));
    const ready = sockets.poll(waiting, leftMs);
    for (const one of [...open].filter(({ descriptor }) => ready.has(descriptor))) {
      const outcome = goOn(sockets, one);
      if (outcome === undefined) continue;
      outcomes.set(one.attempt, outcome);
      open.delete(one);
    }
  }
  return attempts.map((attempt) => outcomes.get(attempt) ?? "timed-out");
}

function begin(sockets: Sockets, attempt: Attempt): Open | ProbeOutcome {
  const descriptor = sockets.open(attempt.address.family, SocketType[attempt.type]);
  if (descriptor < 0) return outcomeOf(-descriptor);
  const result = sockets.connect(descriptor, attempt.address.bytes);
  if (result < 0 && -result !== Errno.inProgress) return outcomeOf(-result);
  const open = { attempt, descriptor, connected: false, received: new Uint8Array() };
  return attempt.type === "datagram" ? (connected(sockets, open) ?? open) : open;
}

function goOn(sockets: Sockets, open: Open): ProbeOutcome | undefined {
  if (open.connected) return listen(sockets, open);
  const error = sockets.connectionError(open.descriptor);
  return error === 0 ? connected(sockets, open) : outcomeOf(error);
}

function connected(sockets: Sockets, open: Open): ProbeOutcome | undefined {
  const { dialogue } = open.attempt;
  if (dialogue === undefined) return "answered";
  open.connected = true;
  return say(sockets, open, dialogue.first);
}

function listen(sockets: Sockets, open: Open): ProbeOutcome | undefined {
  const chunk = new Uint8Array(CHUNK_BYTES);
  const count = sockets.receive(open.descriptor, chunk);
  if (count === -Errno.again) return undefined;
  const isReset = count === -Errno.connectionReset;
  if (count < 0 && !isReset) return outcomeOf(-count);
  if (count > 0) open.received = Buffer.concat([open.received, chunk.subarray(0, count)]);
  const isFull = open.received.byteLength > RECEIVED_BYTES_MAX;
  const next = open.attempt.dialogue?.heard(open.received, count <= 0);
  if (next === undefined) return isFull ? "answered" : undefined;
  return typeof next === "string" ? next : say(sockets, open, next);
}

/** What is said is short: it fits into a socket's own buffer. */
function say(sockets: Sockets, open: Open, bytes: Uint8Array): ProbeOutcome | undefined {
  const result = sockets.send(open.descriptor, bytes);
  if (result >= 0) return undefined;
  return -result === Errno.brokenPipe || -result === Errno.connectionReset ? "denied" : outcomeOf(-result);
}

function outcomeOf(error: number): ProbeOutcome {
  if (REFUSED.has(error)) return "refused";
  if (UNREACHABLE.has(error)) return "unreachable";
  return error === TIMED_OUT ? "timed-out" : "failed";
}
