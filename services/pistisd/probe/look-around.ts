import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import {
  gateways6In,
  gatewaysIn,
  type Interface,
  interfaceNamesIn,
  resolversIn,
  type Surroundings,
  scopesIn,
} from "./surroundings.ts";

/** What this process's own network namespace looks like from inside. */
export function lookAround(): Surroundings {
  const scopes = scopesIn(textOf("/proc/net/if_inet6"));
  const interfaces = interfaceNamesIn(textOf("/proc/net/dev")).map((name) => described(name, scopes.get(name)));
  const gateways6 = gateways6In(textOf("/proc/net/ipv6_route")).map(({ host, device }) => ({
    host,
    scope: scopes.get(device) ?? 0,
  }));
  const gateways = gatewaysIn(textOf("/proc/net/route")).map((host) => ({ host, scope: 0 }));
  return { interfaces, gateways: [...gateways, ...gateways6], resolvers: resolversIn(textOf("/etc/resolv.conf")) };
}

function described(name: string, scope: number | undefined): Interface {
  const addresses = (networkInterfaces()[name] ?? []).map(({ address, cidr }) => ({
    address,
    prefix: Number(cidr?.split("/")[1] ?? 32),
  }));
  return { name, scope, addresses };
}

/** What is not there, or closed, tells nothing. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    if (error instanceof Error && "code" in error) return "";
    throw error;
  }
}
