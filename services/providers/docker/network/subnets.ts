// Which subnets of the pool are free.
import { addressText, type Range, rangeOf } from "#shared/network/subnets.ts";

/** The subnets of `prefix` in the pool that no range in use touches, from the `start`-th on and round to it again. */
export function* freeSubnets(
  pool: string,
  { prefix, start, used }: { prefix: number; start: number; used: readonly Range[] },
): Generator<string> {
  const whole = rangeOf(pool);
  if (whole === undefined) return;
  const size = 2 ** (32 - prefix);
  const count = Math.floor((whole.last - whole.first + 1) / size);
  const near = used.filter((range) => overlaps(range, whole));
  for (let step = 0; step < count; step++) {
    const first = whole.first + ((start + step) % count) * size;
    const range = { first, last: first + size - 1 };
    if (!near.some((taken) => overlaps(taken, range))) yield `${addressText(first)}/${prefix}`;
  }
}

function overlaps(one: Range, other: Range): boolean {
  return one.first <= other.last && other.first <= one.last;
}
