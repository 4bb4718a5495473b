// What a sandbox may reach, by the network that its ledger says it was made with. Pure.
import { type Authority, parseAuthority } from "#schemas/network/authority.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";

export type Target = Readonly<{ host: string; port: number }>;

/** An entry without a port means these. */
const DEFAULT_PORTS: readonly number[] = [443, 80];

export type Verdict = "allowed" | "network_none" | "host_not_allowed" | "sandbox_unknown";

export function verdictOn(network: SandboxNetwork | undefined, target: Target): Verdict {
  if (network === undefined) return "sandbox_unknown";
  switch (network.mode) {
    case "none":
      return "network_none";
    case "open":
      return "allowed";
    case "allow":
      return network.allow.some((entry) => fits(parseAuthority(entry), target)) ? "allowed" : "host_not_allowed";
  }
}

function fits(entry: Authority | undefined, { host, port }: Target): boolean {
  if (entry === undefined || entry.host !== host) return false;
  return entry.port === undefined ? DEFAULT_PORTS.includes(port) : entry.port === port;
}
