import { BlockList } from "node:net";

/** Whether a subnet such as 10.208.0.8/29 is wholly within the pool. Its address has to be its first one. */
export function poolCheck(pool: string): (subnet: string) => boolean {
  const inPool = new BlockList();
  const [address = "", prefix = ""] = pool.split("/");
  inPool.addSubnet(address, Number(prefix), "ipv4");
  return (subnet) => {
    const { first, last, written } = endsOf(subnet);
    return written === first && inPool.check(first, "ipv4") && inPool.check(last, "ipv4");
  };
}

function endsOf(subnet: string): { first: string; last: string; written: string } {
  const [written = "", prefix = ""] = subnet.split("/");
  const size = 2 ** (32 - Number(prefix));
  const first = Math.floor(numberOf(written) / size) * size;
  return { first: textOf(first), last: textOf(first + size - 1), written };
}

function numberOf(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

function textOf(address: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}
