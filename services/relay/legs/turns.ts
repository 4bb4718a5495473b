// Legs take turns, so that one which sends as fast as it can does not make the others wait. A socket with more to read is
// read up to two MiB at once before any other; here it is left after each full read until the others had theirs. And a
// frame costs time whatever its size, so a leg that sends more of them than any honest one does is not read for a while.
import type { Leg } from "./leg.ts";

/** A read of this size fills its buffer, so there is more to read. */
const FULL_READ_BYTES = 64 * 1024;

export type Turns = {
  /** What may still come before the leg has to rest; below zero what it owes. */
  framesLeft: number;
  refilledAtMs: number;
  isResting: boolean;
};

export function newTurns({ frameBurst }: Leg["limits"]): Turns {
  return { framesLeft: frameBurst, refilledAtMs: performance.now(), isResting: false };
}

/** To be called once, when the leg's WebSocket reads its socket. */
export function takeTurns(leg: Leg): void {
  leg.socket.on("data", (chunk: Buffer) => {
    if (leg.turns.isResting) return;
    const restMs = debtMs(leg);
    if (restMs > 0) rest(leg, (goOn) => setTimeout(goOn, restMs));
    else if (chunk.byteLength >= FULL_READ_BYTES) rest(leg, setImmediate);
  });
}

export function countFrame({ turns }: Leg): void {
  turns.framesLeft -= 1;
}

/** For how long it has to rest for the frames that it sent. */
function debtMs({ turns, limits }: Leg): number {
  if (turns.framesLeft >= 0) return 0;
  const now = performance.now();
  const refill = ((now - turns.refilledAtMs) * limits.framesPerSecond) / 1_000;
  turns.framesLeft = Math.min(limits.frameBurst, turns.framesLeft + refill);
  turns.refilledAtMs = now;
  return (-turns.framesLeft / limits.framesPerSecond) * 1_000;
}

function rest(leg: Leg, after: (goOn: () => void) => void): void {
  leg.turns.isResting = true;
  leg.ws.pause();
  after(() => {
    leg.turns.isResting = false;
    if (leg.blockedBy.size === 0) leg.ws.resume();
  });
}
