// IPv4 subnets as numbers.

export type Range = Readonly<{ first: number; last: number }>;

/** undefined for what is no IPv4 subnet in CIDR form. */
export function rangeOf(cidr: string): Range | undefined {
  const found = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(cidr);
  if (found === null) return undefined;
  const [a = 0, b = 0, c = 0, d = 0, prefix = 32] = found.slice(1).map(Number);
  if (prefix > 32 || [a, b, c, d].some((part) => part > 255)) return undefined;
  const size = 2 ** (32 - prefix);
  const first = Math.floor((a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d) / size) * size;
  return { first, last: first + size - 1 };
}

export function isWithin(inner: Range, outer: Range): boolean {
  return outer.first <= inner.first && inner.last <= outer.last;
}

export function addressText(address: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}

/** With the subnet's first address: `10.208.0.9/29` is 10.208.0.8/29. undefined for what is no subnet. */
export function canonicalSubnet(cidr: string): string | undefined {
  const range = rangeOf(cidr);
  return range === undefined ? undefined : `${addressText(range.first)}/${Number(cidr.split("/")[1])}`;
}
