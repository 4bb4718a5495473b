// From a host that a sandbox names to a connection: policy, then addresses, then a connection to one of the very
// addresses that were looked at. A host that may not be reached is not even looked up, so a name carries nothing out.
import { connect, type Socket } from "node:net";
import type { EgressReason } from "#schemas/network/egress-request.ts";
import { failureOf } from "#shared/errors/errors.ts";
import type { Client } from "../pipe/pipe.ts";
import { type Target, verdictOn } from "../policy/policy.ts";
import type { ProxyParts } from "./parts.ts";

/** Why there is no connection. */
export class Unreached extends Error {
  override readonly name = "Unreached";
  readonly reason: EgressReason;
  constructor(reason: EgressReason, options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
  }
}

/** Throws Unreached when the sandbox may not reach the target, or nobody can say whether it may. */
export async function authorise({ networkOf }: ProxyParts, client: Client, target: Target): Promise<void> {
  const network = await networkOf(client).catch((cause: unknown) => {
    throw new Unreached("policy_unknown", { cause });
  });
  const verdict = verdictOn(network, target);
  if (verdict !== "allowed") throw new Unreached(verdict);
}

/** A connection to a target that was authorised. Throws Unreached. */
export async function reach(parts: ProxyParts, target: Target): Promise<Socket> {
  const addresses = await publicAddressesOf(parts, target.host);
  const giveUp = AbortSignal.timeout(parts.limits.connectMs);
  let cause: unknown;
  for (const address of addresses.slice(0, parts.limits.addressesMax)) {
    try {
      return await dial(address, target.port, giveUp);
    } catch (error) {
      cause = error;
      if (giveUp.aborted) break;
    }
  }
  throw new Unreached("connect_failed", { cause });
}

async function publicAddressesOf({ resolve, addresses }: ProxyParts, host: string): Promise<string[]> {
  const found = await resolve(host).catch((cause: unknown) => {
    throw new Unreached(failureOf(cause).code === "name_unknown" ? "name_unknown" : "name_unresolved", { cause });
  });
  const usable = found.filter(addresses.isPublic);
  if (usable.length === 0) throw new Unreached("address_not_public");
  return usable;
}

/** `address` is an IP address: nothing is looked up again. `giveUp` bounds the dialling alone, not the connection. */
function dial(address: string, port: number, giveUp: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true });
    const tooLate = () => socket.destroy(new Error(`${address} did not answer in time`));
    const dialled = () => giveUp.removeEventListener("abort", tooLate);
    giveUp.addEventListener("abort", tooLate);
    socket.once("close", dialled);
    socket.once("connect", () => {
      dialled();
      resolve(socket);
    });
    // It stays: a reset that comes before anyone else listens would end the process.
    socket.on("error", reject);
  });
}
