import type { Socket } from "node:net";

/**
 * Passes bytes on both ways, no faster than the slower side reads, and ends as the sides end: a half that closes closes
 * the other's half, what was taken over is delivered, and an error of one is an error of the other.
 */
export function joinSockets(one: Socket, other: Socket): void {
  one.pipe(other);
  other.pipe(one);
  endTogether(one, other);
  endTogether(other, one);
}

function endTogether(one: Socket, other: Socket): void {
  if (one.destroyed) other.destroy();
  one.once("close", (hadError) => {
    if (hadError || !one.readableEnded) other.destroy();
    else other.destroySoon();
  });
}
