// What is tried from inside a sandbox before its first command. The defaults leave no machine: documentation addresses
// are routed nowhere, and the metadata address is link-local.
import { z } from "zod";
import { parseAuthority } from "./authority.ts";

const ADDRESSES_MAX = 32;

const isAddress = (host: string) => z.union([z.ipv4(), z.ipv6()]).safeParse(host).success;

const address = z.string().max(100).refine(isAddress, "is no IP address");
const addressAndPort = z
  .string()
  .max(100)
  .refine((text) => {
    const { host = "", port } = parseAuthority(text) ?? {};
    return port !== undefined && isAddress(host);
  }, "is no address:port, as in 192.0.2.1:443 or [2001:db8::1]:443");
const addresses = z.array(addressAndPort).max(ADDRESSES_MAX);
const port = z.number().int().min(1).max(65_535);

export const probeSettings = z.strictObject({
  timeoutMs: z.number().int().min(50).max(10_000).default(1_000).describe("Of each attempt; all are made at once"),
  outside: addresses
    .default(["192.0.2.1:443", "[2001:db8::1]:443"])
    .describe("Addresses of the internet that a sandbox without it must not reach"),
  metadata: addresses.default(["169.254.169.254:80"]).describe("Metadata services of clouds"),
  private: addresses.default([]).describe("More that no sandbox may reach: servers of yours, other sandboxes"),
  hostPorts: z
    .array(port)
    .min(1)
    .max(16)
    .default([22, 53, 80, 443, 2375, 4180, 4181, 4222, 5432])
    .describe("Ports that are tried at every gateway and neighbour that the sandbox sees"),
  nameServers: z.array(address).max(ADDRESSES_MAX).default(["192.0.2.53"]).describe("Asked, as are its own resolvers"),
  name: z
    .string()
    .max(200)
    .regex(/^[a-z0-9-]+(\.[a-z0-9-]+)*$/)
    .default("pistis-probe.invalid")
    .describe("The name that is asked for; nothing is allowed to be reached under it"),
  internet: addresses.default([]).describe("Addresses that a sandbox with sandboxes.internet has to reach"),
});

export type ProbeSettings = z.output<typeof probeSettings>;
