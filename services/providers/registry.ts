// Every provider there is. A new one is a folder beside this file and a row in the table.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Log } from "#shared/service/log.ts";
import { openLocalProvider } from "./local/local-provider.ts";
import type { SandboxProvider } from "./provider.ts";

export type ProviderSetting = Readonly<{
  /** Only this provider uses it. */
  stateDir: string;
  installId: string;
  relaySocketPath: string;
  pistisdFolder: string;
  sandboxes: PistisConfig["sandboxes"];
  log: Log;
}>;

export type ProviderName = PistisConfig["sandboxes"]["provider"];

const providers: Readonly<Record<ProviderName, (setting: ProviderSetting) => Promise<SandboxProvider>>> = {
  local: ({ sandboxes, ...setting }) => openLocalProvider({ ...setting, readOnly: sandboxes.local.readOnly }),
};

/** Throws a Refusal with the next step where this machine cannot run the provider. */
export function openProvider(name: ProviderName, setting: ProviderSetting): Promise<SandboxProvider> {
  return providers[name](setting);
}
