// What `pistis status` reads and how it says it.
import { mirrorReader } from "#shared/database/mirror.ts";
import { type ConsumerLag, countParked, readLag } from "#shared/nats/ledger/lag.ts";
import { type Standing, standingOf } from "#shared/nats/ledger/standing.ts";
import type { Context } from "../context.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import { type Stores, withStores } from "../ledger/stores.ts";
import { plural, table } from "../terminal/quantities.ts";
import { shownLine } from "../terminal/untrusted.ts";
import { readWarmPool, type WarmPoolStatus, warmPoolText } from "./warm-pool.ts";

export type StatusOptions = { json?: boolean; state?: string; config?: string };

export type Status = Readonly<{
  lastSequence: number;
  standing: Standing;
  consumers: readonly ConsumerLag[];
  parked: ReadonlyArray<Readonly<{ account: "CORE" | "EDGE"; consumer: string; count: number }>>;
  warmPool: WarmPoolStatus;
}>;

/** Prints it. Resolves with the exit code. */
export async function reportStatus(context: Context, options: StatusOptions): Promise<number> {
  const status = await withStores(context, { ...options, command: "pistis status" }, readStatus);
  context.terminal.out(options.json ? `${JSON.stringify(status, undefined, 2)}\n` : statusText(context, status));
  return status.standing.status === "whole" ? EXIT_OK : EXIT_FAILED;
}

async function readStatus(stores: Stores): Promise<Status> {
  const { nats, edge, database, shards } = stores;
  const standing = await standingOf(nats, mirrorReader(database));
  const [lag, core, outside, warmPool] = await Promise.all([
    readLag(nats, shards),
    countParked(nats),
    countParked(edge),
    readWarmPool(stores),
  ]);
  const counted = (account: "CORE" | "EDGE", counts: ReadonlyMap<string, number>) =>
    [...counts].map(([consumer, count]) => ({ account, consumer, count }));
  return { ...lag, standing, warmPool, parked: [...counted("CORE", core), ...counted("EDGE", outside)] };
}

export function statusText({ terminal }: Pick<Context, "terminal">, status: Status): string {
  const { standing, lastSequence, parked, warmPool } = status;
  const state =
    standing.status === "whole"
      ? terminal.paint("green", "whole")
      : terminal.paint("red", `${standing.status}: run pistis ledger verify`);
  const head = `ledger up to ${lastSequence}, mirror up to ${standing.mirror}: ${state}\n\n`;
  const services = Map.groupBy(status.consumers, ({ service }) => service);
  const rows = [...services].map(([service, shards]) => rowOf(service, shards));
  const columns = ["SERVICE", "DELIVERED", "ACKNOWLEDGED", "LAG", "OUT", "REDELIVERED", "LISTENING"];
  const given = parked.map(({ account, consumer, count }) => `  ${account} ${shownLine(consumer)}: ${count}\n`);
  const total = parked.reduce((sum, { count }) => sum + count, 0);
  return `${head}${table([columns, ...rows])}\n${total === 0 ? "nothing is parked" : `${plural(total, "item")} parked:`}\n${given.join("")}${warmPoolText(warmPool)}`;
}

function rowOf(service: string, shards: readonly ConsumerLag[]): string[] {
  const most = (of: (lag: ConsumerLag) => number) => `${Math.max(...shards.map(of))}`;
  const sum = (of: (lag: ConsumerLag) => number) => `${shards.reduce((total, lag) => total + of(lag), 0)}`;
  return [
    service,
    most(({ delivered }) => delivered),
    most(({ acknowledged }) => acknowledged),
    sum(({ lag }) => lag),
    sum(({ out }) => out),
    sum(({ redelivered }) => redelivered),
    `${shards.filter(({ listening, out }) => listening + out > 0).length} of ${shards.length} shards`,
  ];
}
