// What a sandbox may reach (SPEC section 7). It is fixed when the sandbox is made and stands in the ledger, so nothing
// that the sandbox says and no later change of pistis.json moves it.
import { z } from "zod";
import { authorityText, parseAuthority } from "./authority.ts";
import { isRegistryName, REGISTRY_NAMES, registryHosts } from "./registries.ts";

const ENTRIES_MAX = 500;

/** An entry of `sandboxes.allow`. */
export const allowSetting = z
  .string()
  .max(300)
  .refine((text) => isRegistryName(text) || parseAuthority(text) !== undefined, {
    error: `is neither a host name, host:port (no wildcard) nor one of ${REGISTRY_NAMES.join(", ")}`,
  });

export const allowSettings = z.array(allowSetting).max(ENTRIES_MAX);

const allowed = z
  .array(z.string().max(300))
  .max(ENTRIES_MAX * 4)
  .describe("host or host:port in normal form; without a port 443 and 80 are meant");

export const sandboxNetwork = z.discriminatedUnion("mode", [
  z.strictObject({ mode: z.literal("none") }).describe("Nothing but the relay"),
  z.strictObject({ mode: z.literal("allow"), allow: allowed }).describe("These hosts, through the egress service"),
  z.strictObject({ mode: z.literal("open") }).describe("The internet, but no private range and no other sandbox"),
]);

export type SandboxNetwork = z.output<typeof sandboxNetwork>;

export const NO_NETWORK: SandboxNetwork = { mode: "none" };

/** What `sandboxes.allow` and `sandboxes.internet` come to; shorthands become their hosts. */
export function networkOf({ allow, internet }: { allow: readonly string[]; internet: boolean }): SandboxNetwork {
  if (internet) return { mode: "open" };
  const hosts = allow.flatMap((entry) => (isRegistryName(entry) ? registryHosts[entry] : [normal(entry)]));
  return hosts.length === 0 ? NO_NETWORK : { mode: "allow", allow: [...new Set(hosts)] };
}

function normal(entry: string): string {
  const authority = parseAuthority(entry);
  return authority === undefined ? entry : authorityText(authority);
}
