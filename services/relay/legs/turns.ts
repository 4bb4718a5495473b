// Legs take turns, so that one which sends as fast as it can does not make the others wait.
// - A socket with more to read is read up to two MiB at once before any other; here it is left after each full read until the
//   others had theirs.
// - A frame costs time whatever its size, so a leg that sends more of them than any honest one does is not read for a while.
// - While frames of other sandboxes pass, a leg has a share of the relay's own time, and more at once after a silence. Alone it
//   may have all of it.
import type { RelayLimits } from "../limits.ts";
import type { Leg } from "./leg.ts";

/** A read of this size fills its buffer, so there is more to read. */
const FULL_READ_BYTES = 64 * 1024;
/** Frames of another sandbox that passed this long ago still count: its next ones may be on their way. */
const CROWDED_MS = 200;
/** What a leg spent while it was alone is not held against it for longer. */
const REST_MS_MAX = 100;

/** The two sandboxes whose frames were passed on last. */
export type Crowd = { newest: string; newestAtMs: number; otherAtMs: number };

export function newCrowd(): Crowd {
  return { newest: "", newestAtMs: Number.NEGATIVE_INFINITY, otherAtMs: Number.NEGATIVE_INFINITY };
}

type Bounds = Pick<RelayLimits, "framesPerSecond" | "frameBurst" | "timeShare" | "timeBurstMs">;

export type Turns = {
  readonly sandboxId: string;
  readonly crowd: Crowd;
  /** What may still come before the leg has to rest; below zero what it owes. Both as of `refilledAtMs`. */
  framesLeft: number;
  timeLeftMs: number;
  refilledAtMs: number;
  /** When the relay began to read what the leg sent last. */
  readAtMs: number;
  isResting: boolean;
};

export function newTurns(
  { frameBurst, timeBurstMs }: Bounds,
  { sandboxId, crowd, now = performance.now() }: { sandboxId: string; crowd: Crowd; now?: number },
): Turns {
  const left = { framesLeft: frameBurst, timeLeftMs: timeBurstMs, refilledAtMs: now };
  return { sandboxId, crowd, ...left, readAtMs: now, isResting: false };
}

/** To be called once, when the leg's WebSocket reads its socket. */
export function takeTurns(leg: Leg): void {
  const { turns } = leg;
  leg.socket.prependListener("data", () => {
    turns.readAtMs = performance.now();
  });
  leg.socket.on("data", (chunk: Buffer) => {
    // What was passed on is written in a tick that was asked for before this one: leg.ts.
    process.nextTick(() => {
      const now = performance.now();
      turns.timeLeftMs -= now - turns.readAtMs;
      if (turns.isResting) return;
      const restMs = debtMs(turns, leg.limits, now);
      if (restMs > 0) rest(leg, (goOn) => setTimeout(goOn, restMs));
      else if (chunk.byteLength >= FULL_READ_BYTES) rest(leg, setImmediate);
    });
  });
}

export function countFrame({ turns }: Leg): void {
  turns.framesLeft -= 1;
}

/** To be called with each frame that is passed on. */
export function notePassing({ crowd, sandboxId }: Turns, now = performance.now()): void {
  if (crowd.newest !== sandboxId) {
    crowd.otherAtMs = crowd.newestAtMs;
    crowd.newest = sandboxId;
  }
  crowd.newestAtMs = now;
}

/** For how long a leg has to rest, in milliseconds, for what it sent and the relay's time that this took. */
export function debtMs(turns: Turns, limits: Bounds, now: number): number {
  const { framesPerSecond, frameBurst, timeShare, timeBurstMs } = limits;
  const passedMs = now - turns.refilledAtMs;
  turns.refilledAtMs = now;
  turns.framesLeft = Math.min(frameBurst, turns.framesLeft + (passedMs * framesPerSecond) / 1_000);
  turns.timeLeftMs = Math.min(timeBurstMs, turns.timeLeftMs + passedMs * timeShare);
  turns.timeLeftMs = Math.max(turns.timeLeftMs, -REST_MS_MAX * timeShare);
  const framesMs = (-turns.framesLeft / framesPerSecond) * 1_000;
  return Math.max(0, framesMs, isCrowded(turns, now) ? -turns.timeLeftMs / timeShare : 0);
}

function isCrowded({ crowd, sandboxId }: Turns, now: number): boolean {
  return now - (crowd.newest === sandboxId ? crowd.otherAtMs : crowd.newestAtMs) < CROWDED_MS;
}

function rest(leg: Leg, after: (goOn: () => void) => void): void {
  leg.turns.isResting = true;
  leg.ws.pause();
  after(() => {
    leg.turns.isResting = false;
    if (leg.blockedBy.size === 0) leg.ws.resume();
  });
}
