// Every service of an install, each with only what it may hold.
import { hostname } from "node:os";
import { join } from "node:path";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Writer } from "#schemas/ledger/event.ts";
import { type BrainDependencies, startBrain } from "#services/brain/brain.ts";
import { choicesOf } from "#services/gateway/choices.ts";
import { startGateway } from "#services/gateway/gateway.ts";
import { startProjector } from "#services/projector/projector.ts";
import { openLocalProvider } from "#services/providers/local/local-provider.ts";
import { startProvider } from "#services/providers/provider-service.ts";
import { startPublisher } from "#services/publisher/publisher.ts";
import { startRelay } from "#services/relay/relay.ts";
import { startScheduler } from "#services/scheduler/scheduler.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Database } from "#shared/database/database.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { openTurns } from "#shared/database/sessions.ts";
import type { Ledger, LedgerFeed } from "#shared/ledger/ledger.ts";
import type { LivePublisher } from "#shared/live/live.ts";
import type { NatsConnection } from "#shared/nats/connection.ts";
import type { NatsKeys } from "#shared/nats/keys.ts";
import { openLeases } from "#shared/nats/leases.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { openLivePublisher, openLiveSubscriber } from "#shared/nats/live.ts";
import { LEASE_TTL_MS_DEFAULT } from "#shared/nats/setup.ts";
import {
  openReportReceiver,
  openReportSender,
  openTaskReceiver,
  openTaskSender,
  openTimerReceiver,
  openTimerSender,
} from "#shared/nats/work-queue.ts";
import { openRelayLinks } from "#shared/sandbox-link/relay-link.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import type { RunningService } from "#shared/service/service.ts";
import type { Secrets } from "../state/secrets.ts";
import type { StateFolder } from "../state/state-folder.ts";
import { connectAs } from "./connections.ts";
import { PISTISD_FOLDER } from "./pistisd-folder.ts";
import type { Steps } from "./steps.ts";

export type ServiceParts = Readonly<{
  config: PistisConfig;
  folder: StateFolder;
  secrets: Secrets;
  relayKey: string;
  nats: { url: string; keys: NatsKeys };
  database: Database;
  blobs: Blobs;
  log: (service: string) => Log;
}>;

type Starting = ServiceParts & { resources: Resources; steps: Steps };

/** Starts them all; each is closed with `resources`. Resolves with the address of the HTTP API. */
export async function startServices(parts: ServiceParts, steps: Steps, resources: Resources): Promise<{ url: string }> {
  const starting = { ...parts, steps, resources };
  const relay = await service(starting, "relay", () => relayOf(starting));
  await service(starting, "provider local", () => providerOf(starting));
  await service(starting, "scheduler", () => schedulerOf(starting, relay.url));
  await service(starting, "projector", () => projectorOf(starting));
  await service(starting, "publisher", () => publisherOf(starting, relay.url));
  await service(starting, "brain", () => brainOf(starting, relay.url));
  return service(starting, "gateway", () => gatewayOf(starting, relay.url));
}

async function service<Running extends RunningService>(
  { steps, resources }: Starting,
  name: string,
  start: () => Promise<Running>,
): Promise<Running> {
  return resources.add(name, await steps.run(name, start), ({ close }) => close());
}

function socketPathIn(folder: StateFolder): string {
  return join(folder.path, "relay-socket", "relay.sock");
}

async function relayOf(starting: Starting): Promise<RunningService & { url: string }> {
  const { config, folder, relayKey, nats, resources, log } = starting;
  const reports = openReportSender({ nats: await connectAs(nats, "relay", resources), reporter: "relay" });
  return startRelay({
    host: config.relay.host,
    port: config.relay.port,
    socketPath: socketPathIn(folder),
    adminKey: relayKey,
    stateFile: join(folder.path, "relay", "state.json"),
    reportJoined: (report) => reports.send(`joined-${report.sandboxId}-${report.bootId}`, report),
    log: log("relay"),
  });
}

async function providerOf(starting: Starting): Promise<RunningService> {
  const { config, folder, secrets, nats, resources, log } = starting;
  const connection = await connectAs(nats, "provider-local", resources);
  const provider = await openLocalProvider({
    stateDir: join(folder.path, "sandboxes"),
    installId: secrets.installId,
    relaySocketPath: socketPathIn(folder),
    pistisdFolder: PISTISD_FOLDER,
    readOnly: config.sandboxes.local.readOnly,
    log: log("provider-local"),
  });
  return startProvider({
    provider,
    tasks: openTaskReceiver({ nats: connection, provider: "local", log: log("provider-local") }),
    reports: openReportSender({ nats: connection, reporter: "provider-local" }),
    log: log("provider-local"),
  });
}

async function schedulerOf(starting: Starting, relayUrl: string): Promise<RunningService> {
  const { config, relayKey, nats, resources } = starting;
  const log = starting.log("scheduler");
  const [core, edge] = await Promise.all([
    connectAs(nats, "scheduler", resources),
    connectAs(nats, "edge-scheduler", resources),
  ]);
  const { image = null, memoryMiB, cpuCores, processesMax, diskMiB, startMs } = config.sandboxes;
  return startScheduler({
    ...ledgerOf(starting, "scheduler", core),
    tasks: (provider) => openTaskSender({ nats: edge, provider }),
    reports: openReportReceiver({ nats: edge, log }),
    timers: { sender: openTimerSender({ nats: core }), receiver: openTimerReceiver({ nats: core, log }) },
    relay: { url: relayUrl, adminKey: relayKey },
    spec: { image, memoryMiB, cpuCores, processesMax, diskMiB },
    startMs,
    log,
  });
}

async function projectorOf(starting: Starting): Promise<RunningService> {
  const { config, database, blobs, nats, resources } = starting;
  const log = starting.log("projector");
  const connection = await connectAs(nats, "projector", resources);
  const { shards } = config.ledger;
  return startProjector({ feed: openLedgerFeed({ nats: connection, shards, blobs, log }), database, shards, log });
}

async function publisherOf(starting: Starting, relayUrl: string): Promise<RunningService> {
  const { config, folder, relayKey, nats, resources } = starting;
  const log = starting.log("publisher");
  const [connection, live] = await Promise.all([
    connectAs(nats, "publisher", resources),
    connectAs(nats, "publisher", resources, "publisher-live"),
  ]);
  return startPublisher({
    ...ledgerOf(starting, "publisher", connection),
    openLink: openRelayLinks({ relayUrl, adminKey: relayKey, reattachMs: config.recovery.reattachMs, log }),
    live: livePublisherOn(live, resources),
    config: config.git,
    stateDir: join(folder.path, "publisher"),
    log,
  });
}

function livePublisherOn(nats: NatsConnection, resources: Resources): LivePublisher {
  return resources.add("live publisher", openLivePublisher({ nats }), ({ close }) => close());
}

async function brainOf(starting: Starting, relayUrl: string): Promise<RunningService> {
  const { config, database, relayKey, nats, resources } = starting;
  const log = starting.log("brain");
  const [connection, live] = await Promise.all([
    connectAs(nats, "brain", resources),
    connectAs(nats, "brain", resources, "brain-live"),
  ]);
  const brainName = hostname();
  const dependencies: BrainDependencies = {
    ...ledgerOf(starting, "brain", connection),
    leases: await openLeases({ nats: connection, holder: brainName, ttlMs: LEASE_TTL_MS_DEFAULT }),
    openLink: openRelayLinks({ relayUrl, adminKey: relayKey, reattachMs: config.recovery.reattachMs, log }),
    live: livePublisherOn(live, resources),
    config,
    openTurns: () => openTurns(database),
    brainName,
  };
  return startBrain({ ...dependencies, log });
}

async function gatewayOf(starting: Starting, relayUrl: string): Promise<RunningService & { url: string }> {
  const { config, secrets, database, blobs, relayKey, nats, resources } = starting;
  const log = starting.log("gateway");
  const [connection, live] = await Promise.all([
    connectAs(nats, "gateway", resources),
    connectAs(nats, "gateway", resources, "gateway-live"),
  ]);
  return startGateway({
    ...ledgerOf(starting, "gateway", connection),
    host: config.server.host,
    port: config.server.port,
    adminToken: secrets.adminToken,
    live: openLiveSubscriber({ nats: live }),
    database,
    blobs,
    openLink: openRelayLinks({ relayUrl, adminKey: relayKey, reattachMs: config.recovery.reattachMs, log }),
    choices: choicesOf(config),
    checks: { nats: () => connection.flush() },
    log,
  });
}

function ledgerOf(
  { config, database, blobs, log }: Starting,
  writer: Writer,
  nats: NatsConnection,
): { ledger: Ledger; feed: LedgerFeed } {
  const { shards } = config.ledger;
  return {
    ledger: openLedger({ nats, writer, shards, blobs, mirror: mirrorReader(database) }),
    feed: openLedgerFeed({ nats, shards, blobs, log: log(writer) }),
  };
}
