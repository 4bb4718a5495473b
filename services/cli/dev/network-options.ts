// `--allow-registry`, `--allow` and `--internet`: more for this start than pistis.json says, never less.
import { type Command, InvalidArgumentError } from "commander";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { parseAuthority } from "#schemas/network/authority.ts";
import { isRegistryName, REGISTRY_NAMES } from "#schemas/network/registries.ts";
import { networkOf } from "#schemas/network/sandbox-network.ts";

export type NetworkOptions = Readonly<{ allowRegistry?: string[]; allow?: string[]; internet?: boolean }>;

export function addNetworkOptions(command: Command): Command {
  return command
    .option(
      "--allow-registry <name>",
      `sandboxes may download from it: ${REGISTRY_NAMES.join(", ")}; may be given again`,
      collect(isRegistryName, `Allowed are ${REGISTRY_NAMES.join(", ")}.`),
    )
    .option(
      "--allow <host[:port]>",
      "sandboxes may reach this host, on 443 and 80 without a port; may be given again",
      collect((text) => parseAuthority(text) !== undefined, "Allowed is a host name or host:port, no wildcard."),
    )
    .option("--internet", "sandboxes may reach every public host");
}

function collect(isValid: (text: string) => boolean, complaint: string) {
  return (text: string, before: string[] = []): string[] => {
    if (!isValid(text)) throw new InvalidArgumentError(complaint);
    return [...before, text];
  };
}

export function withNetwork(config: PistisConfig, options: NetworkOptions): PistisConfig {
  const { allow, internet } = config.sandboxes;
  const more = [...(options.allowRegistry ?? []), ...(options.allow ?? [])];
  const sandboxes = {
    ...config.sandboxes,
    allow: [...allow, ...more],
    internet: internet || options.internet === true,
  };
  return { ...config, sandboxes };
}

/** For people: what new sandboxes may reach. */
export function networkText({ sandboxes }: Pick<PistisConfig, "sandboxes">): string {
  const network = networkOf(sandboxes);
  switch (network.mode) {
    case "none":
      return "nothing but Pistis itself (--allow-registry, --allow and --internet open more)";
    case "allow":
      return network.allow.join(", ");
    case "open":
      return "every public host";
  }
}
