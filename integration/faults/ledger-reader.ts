// The ledger as it stands in JetStream, with the server's own time of each message; the mirror beside it and what is made
// of the mirror.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { serviceFolders, stateFolder } from "#services/cli/state/state-folder.ts";
import { checkReadModels } from "#services/projector/check.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import { openDatabase } from "#shared/database/database.ts";
import { mirroredSessions, mirrorReader } from "#shared/database/mirror.ts";
import { decodeMessage } from "#shared/ledger/codec.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { connectNats } from "#shared/nats/connection.ts";
import type { ServiceProcesses } from "../testing/service-processes.ts";

const NEXT = `$JS.API.DIRECT.GET.${LEDGER_STREAM}`;
const NOT_FOUND = 404;

export type ReadMessage = Readonly<{ message: LedgerMessage; storedAtMs: number }>;

/** Every message of every session, in the order of the stream. */
export async function readLedger({ natsUrl, statePath }: ServiceProcesses): Promise<ReadMessage[]> {
  const variables = parseEnv(await readFile(join(statePath, "env", "gateway.env"), "utf8"));
  const seed = variables["PISTIS_NATS_SEED"] ?? "";
  const blobs = openBlobs(variables["PISTIS_BLOBS"] ?? "");
  const nats = await connectNats({ url: natsUrl, user: "gateway", seed, name: "fault injector" });
  try {
    const read: ReadMessage[] = [];
    for (let from = 1; ; ) {
      const stored = await nats.request(NEXT, JSON.stringify({ seq: from, next_by_subj: "ledger.*.*" }));
      const { headers } = stored;
      if (headers?.code === NOT_FOUND) return read;
      const sequence = Number(headers?.get("Nats-Sequence"));
      const message = await decodeMessage({ sequence, bytes: stored.data }, blobs);
      read.push({ message, storedAtMs: milliseconds(headers?.get("Nats-Time-Stamp") ?? "") });
      from = sequence + 1;
    }
  } finally {
    await nats.close();
  }
}

/** With its part below a millisecond: a mark has microseconds, so the server's time needs them as well. */
function milliseconds(timestamp: string): number {
  const [, digits = ""] = /\.\d{3}(\d+)/.exec(timestamp) ?? [];
  return Date.parse(timestamp) + (digits === "" ? 0 : Number(`0.${digits}`));
}

/** Where the mirror in PostgreSQL differs from the ledger; it may need a moment after the last message. */
export async function mirrorDifferences(
  { databaseUrl }: ServiceProcesses,
  ledger: readonly ReadMessage[],
): Promise<string[]> {
  const database = await openDatabase(databaseUrl);
  try {
    const expected = new Map<string, string[]>();
    for (const { message } of ledger) {
      expected.set(message.session, [...(expected.get(message.session) ?? []), lineOf(message)]);
    }
    const mirrored = await mirroredSessions(database.pool, "", 100_000);
    const extra = mirrored.filter((session) => !expected.has(session)).map((session) => `${session} is in no ledger`);
    const differing = await Promise.all(
      [...expected].map(async ([session, lines]) => {
        const rows = await mirrorReader(database).read(session, 0);
        const same = rows.length === lines.length && rows.every((row, at) => lineOf(row) === lines[at]);
        return same ? [] : [`${session} has ${rows.length} rows for ${lines.length} messages, or others`];
      }),
    );
    return [...extra, ...differing.flat()];
  } finally {
    await database.close();
  }
}

/** Where the read models differ from what a rebuild makes of the mirror; they may need a moment as well. */
export async function readModelDifferences({ databaseUrl, statePath, folder }: ServiceProcesses): Promise<string[]> {
  const database = await openDatabase(databaseUrl);
  try {
    const blobs = openBlobs(serviceFolders(stateFolder(statePath, {}, folder)).blobs);
    const { shards } = pistisConfig.parse({}).ledger;
    const { difference } = await checkReadModels({ database, blobs, shards });
    if (difference === undefined) return [];
    const { table, key, stored, rebuilt } = difference;
    return [`${table} has at ${key} ${JSON.stringify(stored)}, and a rebuild makes ${JSON.stringify(rebuilt)}`];
  } finally {
    await database.close();
  }
}

function lineOf({ sequence, bytes }: { sequence: number; bytes: Uint8Array }): string {
  return `${sequence} ${createHash("sha256").update(bytes).digest("hex")}`;
}
