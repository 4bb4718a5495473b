// What `pistis projections rebuild` does.
import { mirrorReader } from "#shared/database/mirror.ts";
import { type ParkedItem, readParked } from "#shared/nats/ledger/parked.ts";
import type { Context } from "../context.ts";
import { checkReadModels, type ProjectionCheck, rebuildReadModels } from "../dev/read-models.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import { type Stores, withStores } from "../ledger/stores.ts";
import { progress } from "../terminal/progress.ts";
import { plural } from "../terminal/quantities.ts";
import { shownLine } from "../terminal/untrusted.ts";

export type RebuildOptions = { check?: boolean; json?: boolean; state?: string; config?: string };

const SHOWN_MAX = 20;

/** Resolves with the exit code. */
export function rebuild(context: Context, options: RebuildOptions): Promise<number> {
  const command = "pistis projections rebuild";
  return withStores(context, { ...options, command }, (stores) => rebuildIn(context, stores, options));
}

async function rebuildIn(context: Context, stores: Stores, { check, json }: RebuildOptions): Promise<number> {
  const { terminal } = context;
  const { database, blobs, shards, nats } = stores;
  const total = await mirrorReader(database).countAfter(0);
  const onProgress = progress(terminal, "replayed", () => total);
  const made: Pick<ProjectionCheck, "messages" | "difference"> = check
    ? await checkReadModels({ database, blobs, shards, onProgress })
    : { ...(await rebuildReadModels({ database, blobs, shards, onProgress })), difference: undefined };
  const parked = (await readParked(nats)).filter(({ consumer }) => consumer.startsWith("projector-"));
  const same = made.difference === undefined;
  if (json) terminal.out(`${JSON.stringify({ same, ...made, parked }, undefined, 2)}\n`);
  else terminal.out(`${resultText(context, made, check ?? false)}${parkedText(parked)}`);
  return same ? EXIT_OK : EXIT_FAILED;
}

function resultText(
  { terminal }: Context,
  { messages, difference }: Pick<ProjectionCheck, "messages" | "difference">,
  check: boolean,
): string {
  const replayed = `replayed ${plural(messages, "message")}`;
  if (!check) return `${replayed}; the read models are made anew\n`;
  if (difference === undefined) return `${replayed}: every row of the read models is as a rebuild makes it\n`;
  const { table, key, stored, rebuilt } = difference;
  const shownRow = (row: unknown) => (row === null ? "no such row" : shownLine(JSON.stringify(row), 2_000));
  const head = terminal.paint("red", `${replayed}: ${table} differs at ${shownLine(key)}`);
  return `${head}\n  stored   ${shownRow(stored)}\n  rebuilt  ${shownRow(rebuilt)}\n  next: pistis projections rebuild\n`;
}

function parkedText(parked: readonly ParkedItem[]): string {
  if (parked.length === 0) return "";
  const lines = parked
    .slice(0, SHOWN_MAX)
    .map(({ sequence, session, code, reason }) => `  ${sequence} ${session} ${code}: ${shownLine(reason)}\n`);
  const next = "an update that can read them; they stay in the ledger until then";
  return `${plural(parked.length, "message")} parked by the projector, so in no read model:\n${lines.join("")}  next: ${next}\n`;
}
