import { canonicalSubnet, isWithin, rangeOf } from "#shared/network/subnets.ts";

/** Whether a subnet such as 10.208.0.8/29, written with its first address, is wholly within the pool. */
export function poolCheck(pool: string): (subnet: string) => boolean {
  const whole = rangeOf(pool);
  return (subnet) => {
    const range = rangeOf(subnet);
    if (whole === undefined || range === undefined) return false;
    return canonicalSubnet(subnet) === subnet && isWithin(range, whole);
  };
}
