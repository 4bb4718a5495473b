// Which addresses are the internet. Whatever a name resolves to, the connection goes to an address that was looked at
// here: not this machine, no private network, no cloud's metadata.
import { BlockList, isIP, isIPv6 } from "node:net";
import { CLOSED_RANGES } from "#shared/network/closed-ranges.ts";

/** All that is given out as global unicast; loopback, mapped, NAT64, unique local, link-local, multicast are outside. */
const GLOBAL_V6 = "2000::/3";

/** Of that: what carries an IPv4 address inside, or is for protocols and documentation. */
const NOT_PUBLIC_V6 = [
  "2001::/23", // Teredo, benchmarks, ORCHID
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4
  "3fff::/20", // documentation
];

export type PublicAddresses = Readonly<{ isPublic: (address: string) => boolean }>;

/**
 * `except` are ranges that count as public though they are not: for stand-ins in tests. `own` are the addresses of this
 * machine, asked for each time. Throws RangeError for an `except` that is no range.
 */
export function openPublicAddresses(options: {
  except: readonly string[];
  own: () => readonly string[];
}): PublicAddresses {
  // Apart, because a list also finds its IPv4 ranges inside IPv6 addresses.
  const except = {
    ipv4: blockList(options.except.filter((range) => !range.includes(":"))),
    ipv6: blockList(options.except.filter((range) => range.includes(":"))),
  };
  const notPublic = blockList([...CLOSED_RANGES, ...NOT_PUBLIC_V6]);
  const global = blockList([GLOBAL_V6]);
  return {
    isPublic: (address) => {
      if (isIP(address) === 0 || address.includes("%")) return false;
      const family = isIPv6(address) ? "ipv6" : "ipv4";
      if (except[family].check(address, family)) return true;
      if (family === "ipv6" && !global.check(address, family)) return false;
      return !notPublic.check(address, family) && !options.own().includes(address);
    },
  };
}

function blockList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", prefix = ""] = range.split("/");
    if (isIP(address) === 0 || !/^\d{1,3}$/.test(prefix)) throw new RangeError(`${range} is no range of addresses`);
    list.addSubnet(address, Number(prefix), isIPv6(address) ? "ipv6" : "ipv4");
  }
  return list;
}
