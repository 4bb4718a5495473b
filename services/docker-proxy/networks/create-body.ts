// A network of one sandbox: a bridge of its own. Its addresses are out of the configured pool, because the firewall
// (services/docker-firewall) closes private ranges, other sandboxes and the host for exactly that pool.
import { z } from "zod";
import { newLabels, newName, SANDBOX_NAME } from "../labels.ts";

/** `engine`: the engine picks the addresses. */
export type NetworkRules = Readonly<{ key: string; isInPool: ((subnet: string) => boolean) | "engine" }>;

export function networkBody({ key, isInPool }: NetworkRules) {
  const base = {
    Name: newName(key, SANDBOX_NAME),
    CheckDuplicate: z.literal(true),
    Driver: z.literal("bridge"),
    Internal: z.literal(false),
    Attachable: z.literal(false),
    EnableIPv6: z.literal(false),
    Labels: newLabels(key, "network"),
    Options: z.strictObject({ "com.docker.network.bridge.enable_icc": z.literal("false") }),
  };
  if (isInPool === "engine") return z.strictObject(base);
  const subnet = z.cidrv4().refine(isInPool, "is not within sandboxes.docker.subnets");
  const addresses = z.strictObject({
    Driver: z.literal("default"),
    Config: z.tuple([z.strictObject({ Subnet: subnet })]),
  });
  return z.strictObject({ ...base, IPAM: addresses });
}
