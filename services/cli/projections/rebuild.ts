// What `pistis projections rebuild` does.
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { mirroredAmong, mirrorReader } from "#shared/database/mirror.ts";
import { type ParkedItem, readParked } from "#shared/nats/ledger/parked.ts";
import { scanLedger, WHOLE_LEDGER } from "#shared/nats/ledger/scan.ts";
import { lastSequence } from "#shared/nats/ledger/standing.ts";
import type { Context } from "../context.ts";
import { checkReadModels, type ProjectionCheck, rebuildReadModels, refillMirror } from "../dev/read-models.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import { type Stores, withStores } from "../ledger/stores.ts";
import { progress } from "../terminal/progress.ts";
import { plural } from "../terminal/quantities.ts";
import { shownLine } from "../terminal/untrusted.ts";

export type RebuildOptions = { check?: boolean; json?: boolean; state?: string; config?: string };

const SHOWN_MAX = 20;
/** How the projector parks a message whose rows PostgreSQL refuses: in the mirror it would stop every rebuild. */
const REFUSED_ROWS = "internal";

type Made = Pick<ProjectionCheck, "messages" | "difference"> & Readonly<{ refilled: number }>;

/** Resolves with the exit code. */
export function rebuild(context: Context, options: RebuildOptions): Promise<number> {
  const command = "pistis projections rebuild";
  return withStores(context, { ...options, command }, (stores) => rebuildIn(context, stores, options));
}

async function rebuildIn(context: Context, stores: Stores, { check, json }: RebuildOptions): Promise<number> {
  const { terminal } = context;
  const { database, blobs, shards } = stores;
  const parked = await parkedByProjector(stores);
  const refilled = check ? 0 : await refill(context, stores, parked);
  const total = await mirrorReader(database).countAfter(0);
  const onProgress = progress(terminal, "replayed", () => total);
  const made: Made = check
    ? { refilled, ...(await checkReadModels({ database, blobs, shards, onProgress })) }
    : { refilled, ...(await rebuildReadModels({ database, blobs, shards, onProgress })), difference: undefined };
  const same = made.difference === undefined;
  const there = await mirroredAmong(
    database.pool,
    parked.map(({ sequence }) => sequence),
  );
  const missing = parked.filter(({ sequence }) => !there.has(sequence));
  if (json) terminal.out(`${JSON.stringify({ same, ...made, parked: missing }, undefined, 2)}\n`);
  else terminal.out(`${resultText(context, made, check ?? false)}${parkedText(missing)}`);
  return same ? EXIT_OK : EXIT_FAILED;
}

async function parkedByProjector({ nats }: Stores): Promise<ParkedItem[]> {
  const parked = await readParked(nats);
  return parked.filter(({ stream, consumer }) => stream === LEDGER_STREAM && consumer.startsWith("projector-"));
}

async function refill({ terminal }: Context, stores: Stores, parked: readonly ParkedItem[]): Promise<number> {
  const end = await lastSequence(stores.nats);
  const stream = scanLedger(stores.nats, { after: 0, subject: WHOLE_LEDGER });
  const refused = new Set(parked.filter(({ code }) => code === REFUSED_ROWS).map(({ sequence }) => sequence));
  const onProgress = progress(terminal, "compared with the ledger", () => end);
  return refillMirror({ ...stores, stream, refused, onProgress });
}

function resultText({ terminal }: Context, { messages, difference, refilled }: Made, check: boolean): string {
  const replayed = `replayed ${plural(messages, "message")}`;
  const copied = refilled === 0 ? "" : `copied ${plural(refilled, "message")} that the mirror lacked\n`;
  if (!check) return `${copied}${replayed}; the read models are made anew\n`;
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
  const next = "an update that can read them, then pistis projections rebuild; they stay in the ledger until then";
  return `${plural(parked.length, "message")} parked by the projector, so in no read model:\n${lines.join("")}  next: ${next}\n`;
}
