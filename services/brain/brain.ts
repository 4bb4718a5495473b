// The brain: it owns the turns of sessions, talks to the model, and sends tool calls to sandboxes.
import { setTimeout as delay } from "node:timers/promises";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { newSecret } from "#shared/ids/ids.ts";
import type { Leases } from "#shared/leases/leases.ts";
import type { Ledger, LedgerFeed } from "#shared/ledger/ledger.ts";
import type { Snapshots } from "#shared/ledger/snapshots.ts";
import type { LivePublisher } from "#shared/live/live.ts";
import type { OpenLink } from "#shared/sandbox-link/link.ts";
import type { Log } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import type { Start } from "#shared/service/service.ts";
import { Dispatch } from "./dispatch/dispatch.ts";
import { WARM_MS } from "./dispatch/warm-records.ts";
import { openModels } from "./models/registry.ts";
import { openToolboxes } from "./turn/session-run.ts";
import { WarmLinks } from "./turn/warm-links.ts";

/** Name of the brain's durable consumers. */
export const BRAIN_CONSUMER = "brain";
export const TAKE_OVER_EVERY_MS = 500;

export type BrainDependencies = Readonly<{
  /** Opened for the writer `brain`. */
  ledger: Ledger;
  feed: LedgerFeed;
  leases: Leases;
  snapshots: Snapshots;
  openLink: OpenLink;
  live: LivePublisher;
  config: PistisConfig;
  /** Sessions with an open turn, or whose messages wait for one, from a read model; it may be behind. */
  unsettled: () => Promise<string[]>;
  /** For people; several brains may have the same. */
  brainName: string;
}>;

/** Starts a brain. Closing it lets go of open turns at once; they are taken up by another brain or the next start. */
export const startBrain: Start<BrainDependencies> = async (dependencies) => {
  const { brainName, config, unsettled, log, feed } = dependencies;
  const resources = new Resources();
  const brain = `${brainName.slice(0, 60)}-${newSecret().slice(0, 12)}`;
  const warmLinks = resources.add("warm links", new WarmLinks(WARM_MS), (it) => it.close());
  const models = openModels(config);
  const dispatch = new Dispatch({ ...dependencies, brain, models, tools: openToolboxes(config), warmLinks });
  const stopping = new AbortController();
  resources.add("dispatch", dispatch, (it) => it.close());
  const watching = watchUnsettled({ dispatch, unsettled, log, signal: stopping.signal });
  resources.add("take-over", watching, () => watching);
  resources.add("take-over's clock", stopping, (it) => it.abort());
  const consumer = await feed.react({ consumer: BRAIN_CONSUMER, handle: (messages) => dispatch.handle(messages) });
  resources.add("consumer", consumer, (it) => it.close());
  return { name: "brain", close: () => resources.close() };
};

type Watch = Readonly<{ dispatch: Dispatch; unsettled: () => Promise<string[]>; log: Log; signal: AbortSignal }>;

async function watchUnsettled(watch: Watch): Promise<void> {
  while (!watch.signal.aborted) {
    await takeOverAll(watch);
    await delay(TAKE_OVER_EVERY_MS, undefined, { signal: watch.signal }).catch(() => undefined);
  }
}

async function takeOverAll({ dispatch, unsettled, log }: Watch): Promise<void> {
  try {
    // Without the database, open turns that were heard of are still taken over.
    await dispatch.takeOverAll(
      await unsettled().catch((error: unknown) => {
        log.warn({ err: error }, "the read model does not say which sessions are unsettled; it is asked again");
        return [];
      }),
    );
  } catch (error) {
    log.warn({ err: error }, "looking for turns to take over failed and is tried again");
  }
}
