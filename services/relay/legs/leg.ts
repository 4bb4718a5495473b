// One WebSocket of the relay, and the back-pressure between two of them. A leg whose peer does not take
// what is sent stops the reading of whoever sends, so that the relay holds a bounded amount per leg.
import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import type { CloseCode } from "#schemas/wire/relay-http.ts";
import type { RelayLimits } from "../limits.ts";
import { countFrame, notePassing, type Turns, takeTurns } from "./turns.ts";

export type Leg = {
  readonly ws: WebSocket;
  readonly socket: Duplex;
  readonly limits: RelayLimits;
  /** Set by any frame, ping or pong since the last time the relay looked. */
  heard: boolean;
  /** When that was, on the steady clock in milliseconds. */
  heardAtMs: number;
  silentPings: number;
  /** Legs that are too full for what this one sends; while there is one, this one is not read. */
  readonly blockedBy: Set<Leg>;
  /** Legs that are not read because this one is full. */
  readonly blocks: Set<Leg>;
  stuckTimer: NodeJS.Timeout | undefined;
  /** Frames that were sent since its buffer was empty: no fewer than those that wait in it. */
  unsentFrames: number;
  readonly turns: Turns;
};

export function openLeg(ws: WebSocket, socket: Duplex, limits: RelayLimits, turns: Turns): Leg {
  const leg: Leg = {
    ws,
    socket,
    limits,
    heard: true,
    heardAtMs: performance.now(),
    silentPings: 0,
    blockedBy: new Set(),
    blocks: new Set(),
    stuckTimer: undefined,
    unsentFrames: 0,
    turns,
  };
  takeTurns(leg);
  socket.on("drain", () => unblock(leg));
  ws.on("ping", (payload) => {
    if (isTimely(leg)) answerPing(leg, payload);
  });
  ws.on("pong", () => isTimely(leg));
  ws.on("close", () => release(leg));
  return leg;
}

function hear(leg: Leg): void {
  leg.heard = true;
  leg.heardAtMs = performance.now();
}

/**
 * Notes a frame of the leg; false when it comes so late that its sender has long given it up: then the leg is cut, and
 * nothing of what waited on it is passed on. That is how it looks after the relay itself, or the network, stood still.
 */
export function isTimely(leg: Leg): boolean {
  if (leg.ws.readyState !== leg.ws.OPEN) return false;
  countFrame(leg);
  const { pingMs, silentPingsMax } = leg.limits;
  if (performance.now() - leg.heardAtMs > pingMs * (silentPingsMax + 1)) {
    cut(leg);
    return false;
  }
  hear(leg);
  return true;
}

/** Not of one that has more to take already than it may: it could have the relay pile up answers without end. */
function answerPing(leg: Leg, payload: Buffer): void {
  if (leg.ws.readyState !== leg.ws.OPEN || isFull(leg)) return;
  gather(leg);
  leg.ws.pong(payload);
}

/** Sends a frame of `from` to `to`. The frame is not copied, so the caller must not use it again. */
export function passOn(from: Leg, to: Leg, frame: Uint8Array): void {
  send(to, frame);
  notePassing(from.turns);
  if (isFull(to)) block(from, to);
}

/** A frame takes memory beyond its bytes, and of the smallest ones over a million would fit by these alone. */
function isFull({ socket, unsentFrames, limits }: Leg): boolean {
  const { writableLength: bytes } = socket;
  // Below its mark a socket announces no drain, and holds few frames.
  if (bytes <= socket.writableHighWaterMark) return false;
  return bytes + unsentFrames * limits.frameBytesKept > limits.legBufferBytesMax;
}

/** Sends a frame of the relay itself, however much the leg has to take already. */
export function send(leg: Leg, frame: Uint8Array): void {
  if (leg.ws.readyState !== leg.ws.OPEN) return;
  gather(leg);
  leg.ws.send(frame, { binary: true });
}

/** Before each frame to a leg: those that are sent in one go, as those that came in one read, leave in one write. */
function gather(leg: Leg): void {
  if (leg.socket.writableCorked === 0) {
    leg.socket.cork();
    process.nextTick(() => leg.socket.uncork());
  }
  leg.unsentFrames = leg.socket.writableLength === 0 ? 1 : leg.unsentFrames + 1;
}

function block(from: Leg, full: Leg): void {
  if (full.blocks.has(from)) return;
  full.blocks.add(from);
  from.blockedBy.add(full);
  from.ws.pause();
  full.stuckTimer ??= setTimeout(() => cut(full), full.limits.stuckMs);
}

function unblock(leg: Leg): void {
  clearTimeout(leg.stuckTimer);
  leg.stuckTimer = undefined;
  for (const from of leg.blocks) {
    from.blockedBy.delete(leg);
    if (from.blockedBy.size > 0) continue;
    hear(from);
    if (!from.turns.isResting) from.ws.resume();
  }
  leg.blocks.clear();
}

/** Lets go of everything that waits for a leg that is gone. */
function release(leg: Leg): void {
  unblock(leg);
  for (const full of leg.blockedBy) full.blocks.delete(leg);
  leg.blockedBy.clear();
}

/** Ends a leg without a word: its peer does not listen. */
export function cut(leg: Leg): void {
  leg.ws.terminate();
  release(leg);
}

/** Says why and ends the leg; a peer that does not answer is cut after `closeMs`. */
export function closeLeg(leg: Leg, code: (typeof CloseCode)[keyof typeof CloseCode] | 1001, reason: string): void {
  release(leg);
  leg.ws.resume();
  if (leg.ws.readyState === leg.ws.OPEN) leg.ws.close(code, reason);
  const timer = setTimeout(() => leg.ws.terminate(), leg.limits.closeMs);
  leg.ws.once("close", () => clearTimeout(timer));
}

/** Pings a leg; one that showed no sign of life over `silentPingsMax` pings is cut. Legs that are not read are spared. */
export function checkLife(leg: Leg): void {
  if (leg.blockedBy.size > 0) return;
  leg.silentPings = leg.heard ? 0 : leg.silentPings + 1;
  leg.heard = false;
  if (leg.silentPings >= leg.limits.silentPingsMax) cut(leg);
  else if (leg.ws.readyState === leg.ws.OPEN) leg.ws.ping();
}
