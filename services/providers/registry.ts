// Every provider there is. A new one is a folder beside this file and a case below.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Log } from "#shared/service/log.ts";
import { openLocalProvider } from "./local/local-provider.ts";
import type { SandboxProvider } from "./provider.ts";

export type ProviderName = NonNullable<PistisConfig["sandboxes"]["provider"]>;

/** What each kind has of its own. */
export type OwnSetting =
  | Readonly<{
      kind: "local";
      /** Holds the sandboxes' disks. */
      stateDir: string;
    }>
  | Readonly<{
      kind: "docker";
      /** Its sandboxes could outlive this process: they are stopped with it. */
      stopAtClose: boolean;
    }>;

export type ProviderSetting = OwnSetting &
  Readonly<{
    installId: string;
    relaySocketFolder: string;
    pistisdFolder: string;
    sandboxes: PistisConfig["sandboxes"];
    log: Log;
  }>;

/** Throws a Refusal or a Retryable with the next step where this machine cannot run the provider. */
export async function openProvider({ sandboxes, ...setting }: ProviderSetting): Promise<SandboxProvider> {
  switch (setting.kind) {
    case "local":
      return openLocalProvider({ ...setting, readOnly: sandboxes.local.readOnly });
    case "docker": {
      const { image, docker } = sandboxes;
      // Its client takes half a second to load.
      const { openDockerProvider } = await import("./docker/docker-provider.ts");
      return openDockerProvider({ ...setting, image, docker });
    }
  }
}
