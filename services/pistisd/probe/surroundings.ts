// What a sandbox can see of the network that it is in: interfaces, gateways, neighbours, resolvers. Pure.

export type Interface = Readonly<{
  name: string;
  /** The kernel's number of it, which a link-local address needs; absent when it has none. */
  scope: number | undefined;
  addresses: readonly Readonly<{ address: string; prefix: number }>[];
}>;

export type Surroundings = Readonly<{
  /** All but the loopback one. */
  interfaces: readonly Interface[];
  gateways: readonly Place[];
  resolvers: readonly string[];
}>;

export type Place = Readonly<{ host: string; scope: number }>;

/** A subnet up to this size is tried whole. */
const SMALL_PREFIX = 28;
const PLACES_MAX = 60;
const LINK_LOCAL_GATEWAY = "fe80::1";

/** Where a sibling or the host may be: gateways, small subnets whole, the ends of large ones, and the subnets beside them. */
export function placesAround({ interfaces, gateways }: Surroundings): Place[] {
  const own = new Set(interfaces.flatMap(({ addresses }) => addresses.map(({ address }) => address)));
  const places = [
    ...gateways,
    ...interfaces.flatMap(({ scope }) => (scope === undefined ? [] : [{ host: LINK_LOCAL_GATEWAY, scope }])),
    ...interfaces.flatMap(({ addresses }) => addresses.flatMap(({ address, prefix }) => neighbours(address, prefix))),
  ];
  const unique = new Map(places.map((place) => [`${place.host}%${place.scope}`, place]));
  return [...unique.values()].filter(({ host }) => !own.has(host)).slice(0, PLACES_MAX);
}

function neighbours(address: string, prefix: number): Place[] {
  if (address.includes(":") || prefix < 8 || prefix > 30) return [];
  const size = 2 ** (32 - prefix);
  const first = Math.floor(numberOf(address) / size) * size;
  const hosts = prefix >= SMALL_PREFIX ? size - 2 : 2;
  const inside = Array.from({ length: hosts }, (_, index) => first + 1 + index);
  const beside = [first - size, first + size].flatMap((start) => [start + 1, start + 2]);
  const last = first + size - 2;
  return [...new Set([...inside, last, ...beside])]
    .filter(isAddress)
    .map((value) => ({ host: textOf(value), scope: 0 }));
}

/** `/proc/net/route`: addresses are little-endian hexadecimal. */
export function gatewaysIn(route: string): string[] {
  const found = route
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const gateway = line.split(/\s+/)[2] ?? "";
      if (!/^[0-9A-F]{8}$/.test(gateway) || gateway === "00000000") return [];
      return [
        gateway
          .match(/../g)
          ?.reverse()
          .map((byte) => Number.parseInt(byte, 16))
          .join(".") ?? "",
      ];
    });
  return [...new Set(found)];
}

/** `/proc/net/ipv6_route`: destination, prefix, source, prefix, next hop, ..., device. */
export function gateways6In(route: string): { host: string; device: string }[] {
  return route.split("\n").flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const hop = fields[4] ?? "";
    if (!/^[0-9a-f]{32}$/.test(hop) || /^0+$/.test(hop)) return [];
    return [{ host: hop.match(/.{4}/g)?.join(":") ?? "", device: fields.at(-1) ?? "" }];
  });
}

/** `/proc/net/dev`: also those that have no address. */
export function interfaceNamesIn(devices: string): string[] {
  return devices
    .split("\n")
    .flatMap((line) => /^\s*([^:\s]+):/.exec(line)?.[1] ?? [])
    .filter((name) => name !== "lo");
}

/** `/proc/net/if_inet6`: the kernel's numbers of the interfaces that speak IPv6, by name. */
export function scopesIn(addresses: string): Map<string, number> {
  const rows = addresses.split("\n").map((line) => line.trim().split(/\s+/));
  return new Map(
    rows.flatMap(([, index = "", , , , name]) => (name === undefined ? [] : [[name, Number.parseInt(index, 16)]])),
  );
}

/** What the C library would ask; it asks this machine when nothing is set up. */
export function resolversIn(resolvConf: string): string[] {
  const found = resolvConf.split("\n").flatMap((line) => /^\s*nameserver\s+([0-9a-fA-F.:]+)/.exec(line)?.[1] ?? []);
  return found.length === 0 ? ["127.0.0.1"] : found.slice(0, 3);
}

function isAddress(value: number): boolean {
  return value > 0 && value < 2 ** 32 - 1;
}

function numberOf(address: string): number {
  return address.split(".").reduce((value, byte) => value * 256 + Number(byte), 0);
}

function textOf(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
}
