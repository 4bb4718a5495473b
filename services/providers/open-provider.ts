// What a provider stands on, opened from what it may hold: no key of anything but its own NATS user's.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { type NatsAccess, openNats } from "#shared/nats/access.ts";
import { openReportSender, openTaskReceiver } from "#shared/nats/work-queue.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { PISTISD_FOLDER } from "./pistisd-folder.ts";
import { startProvider } from "./provider-service.ts";
import { type OwnSetting, openProvider } from "./registry.ts";

export type ProviderParts = Readonly<{
  own: OwnSetting;
  config: Pick<PistisConfig, "sandboxes">;
  nats: NatsAccess;
  installId: string;
  relaySocketFolder: string;
  /** The one of this installation when absent. */
  pistisdFolder?: string | undefined;
  log: Log;
}>;

/** Closed with `resources`. */
export async function openProviderService(parts: ProviderParts, resources: Resources): Promise<void> {
  const { own, config, installId, relaySocketFolder, pistisdFolder = PISTISD_FOLDER, log } = parts;
  const user = `provider-${own.kind}` as const;
  const nats = await openNats(parts.nats, user, resources);
  const { sandboxes } = config;
  const setting = { ...own, installId, relaySocketFolder, pistisdFolder, sandboxes, log };
  const service = await startProvider({
    provider: await openProvider(setting),
    tasks: openTaskReceiver({ nats, provider: own.kind, log }),
    reports: openReportSender({ nats, reporter: user }),
    log,
  });
  resources.add(user, service, ({ close }) => close());
}
