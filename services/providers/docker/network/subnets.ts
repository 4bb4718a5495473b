// IPv4 ranges as numbers.

export type Range = Readonly<{ first: number; last: number }>;

/** undefined for what is no IPv4 range in CIDR form. */
export function rangeOf(cidr: string): Range | undefined {
  const found = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(cidr);
  if (found === null) return undefined;
  const [a = 0, b = 0, c = 0, d = 0, prefix = 32] = found.slice(1).map(Number);
  if (prefix > 32 || [a, b, c, d].some((part) => part > 255)) return undefined;
  const size = 2 ** (32 - prefix);
  const first = Math.floor((a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d) / size) * size;
  return { first, last: first + size - 1 };
}

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
    if (!near.some((taken) => overlaps(taken, range))) yield `${textOf(first)}/${prefix}`;
  }
}

function overlaps(one: Range, other: Range): boolean {
  return one.first <= other.last && other.first <= one.last;
}

function textOf(address: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}
