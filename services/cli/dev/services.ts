// Every service of an install, each with only what it may hold. How each is wired is its own (services/*/open-*.ts).
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { openBrain } from "#services/brain/open-brain.ts";
import { openEgress } from "#services/egress/open-egress.ts";
import { openGateway } from "#services/gateway/open-gateway.ts";
import { openProjector } from "#services/projector/open-projector.ts";
import { openProviderService } from "#services/providers/open-provider.ts";
import type { ProviderName } from "#services/providers/registry.ts";
import { openPublisher } from "#services/publisher/open-publisher.ts";
import { openRelay } from "#services/relay/open-relay.ts";
import { openScheduler } from "#services/scheduler/open-scheduler.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Database } from "#shared/database/database.ts";
import { RecentMessages } from "#shared/ledger/recent.ts";
import type { NatsAccess } from "#shared/nats/access.ts";
import type { NatsKeys, NatsUser } from "#shared/nats/keys.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import type { Secrets } from "../state/secrets.ts";
import { type StateFolder, serviceFolders } from "../state/state-folder.ts";
import type { Steps } from "./steps.ts";

export type ServiceParts = Readonly<{
  config: PistisConfig;
  provider: ProviderName;
  folder: StateFolder;
  secrets: Secrets;
  relayKey: string;
  nats: { url: string; keys: NatsKeys };
  database: Database;
  blobs: Blobs;
  log: (service: string) => Log;
}>;

/** Starts them all; each is closed with `resources`. Resolves with the address of the HTTP API. */
export async function startServices(parts: ServiceParts, steps: Steps, resources: Resources): Promise<{ url: string }> {
  const { config, provider, secrets, database, blobs, log } = parts;
  const {
    relay: relayFolder,
    relaySocketFolder,
    egressSocketPath,
    sandboxes,
    publisher,
  } = serviceFolders(parts.folder);
  const nats = (user: NatsUser): NatsAccess => ({ url: parts.nats.url, seed: parts.nats.keys[user].seed });
  const named = (name: string, user: NatsUser) => ({ config, nats: nats(user), log: log(name) });
  const stored = { database, blobs, recent: new RecentMessages({ hearsAll: true }) };
  const egress = { address: `unix:${egressSocketPath}`, key: secrets.egressKey };
  const { url, connect } = await steps.run("relay", () => {
    const own = { key: parts.relayKey, folder: relayFolder, socketFolder: relaySocketFolder, egress };
    return openRelay({ ...named("relay", "relay"), ...own }, resources);
  });
  const relay = { url, key: parts.relayKey, connect };
  await steps.run(`provider ${provider}`, () => {
    // What outlives this process would run on with nobody to speak to.
    const own = provider === "docker" ? { kind: provider, stopAtClose: true } : { kind: provider, stateDir: sandboxes };
    const name = `provider-${provider}` as const;
    return openProviderService(
      { ...named(name, name), own, installId: secrets.installId, relaySocketFolder },
      resources,
    );
  });
  await steps.run("scheduler", () => {
    const own = { ...stored, relay, edgeNats: nats("edge-scheduler") };
    return openScheduler({ ...named("scheduler", "scheduler"), ...own }, resources);
  });
  await steps.run("egress", () => openEgress({ ...named("egress", "egress"), ...egress }, resources));
  await steps.run("projector", () => openProjector({ ...named("projector", "projector"), ...stored }, resources));
  await steps.run("publisher", () => {
    const own = { ...stored, relay, folder: publisher };
    return openPublisher({ ...named("publisher", "publisher"), ...own }, resources);
  });
  await steps.run("brain", () => openBrain({ ...named("brain", "brain"), ...stored, relay }, resources));
  return steps.run("gateway", () => {
    const own = { ...stored, relay, adminToken: secrets.adminToken };
    return openGateway({ ...named("gateway", "gateway"), ...own }, resources);
  });
}
