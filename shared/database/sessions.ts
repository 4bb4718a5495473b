// The list of sessions and each session's overview, as far as the projector has come.
import type { EntityData } from "@mikro-orm/postgresql";
import { z } from "zod";
import type { SessionDetail } from "#schemas/api/session.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Version } from "#shared/ledger/ledger.ts";
import type { Database } from "./database.ts";
import { type SessionOverviewRow, sessionOverviewEntity } from "./entities.ts";

/** An overview, and the version of the session that it is as of. */
export type StoredOverview = Readonly<{ session: SessionDetail; version: Version }>;

const cursorForm = z.tuple([z.iso.datetime(), z.string().max(100)]);

/**
 * One page, the session written to last first. `cursor` is `next` of the page before.
 * Throws a Refusal `invalid_request` for a cursor that no page gave.
 */
export async function listSessions(
  database: Database,
  page: { limit: number; cursor?: string | undefined },
): Promise<{ sessions: SessionDetail[]; next: string | null }> {
  const where = page.cursor === undefined ? {} : afterCursor(page.cursor);
  const found = await database.orm.em.fork().find(sessionOverviewEntity, where, {
    orderBy: [{ updatedAt: "desc" }, { id: "desc" }],
    limit: page.limit + 1,
  });
  const sessions = found.slice(0, page.limit).map((row) => overviewOf(row).session);
  const last = sessions.at(-1);
  return { sessions, next: found.length > page.limit && last !== undefined ? cursorOf(last) : null };
}

export async function findSession(database: Database, session: string): Promise<StoredOverview | undefined> {
  const [found] = await findSessions(database, [session]);
  return found;
}

/** The overviews that exist of these sessions. */
export async function findSessions(database: Database, sessions: readonly string[]): Promise<StoredOverview[]> {
  const found = await database.orm.em.fork().find(sessionOverviewEntity, { id: { $in: [...sessions] } });
  return found.map(overviewOf);
}

function afterCursor(cursor: string) {
  const [updatedAt, id] = readCursor(cursor);
  return { $or: [{ updatedAt: { $lt: updatedAt } }, { updatedAt, id: { $lt: id } }] };
}

function cursorOf({ updatedAt, id }: SessionDetail): string {
  return Buffer.from(JSON.stringify([updatedAt, id])).toString("base64url");
}

function readCursor(cursor: string): [Date, string] {
  try {
    const [updatedAt, id] = cursorForm.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
    return [new Date(updatedAt), id];
  } catch (cause) {
    const next = "Give `next` of the page before, or no cursor for the first page.";
    throw new Refusal("invalid_request", "The cursor is none that a page gave", { cause, next });
  }
}

/** The row of an overview, by the entity's names. */
export function rowOf({ session, version }: StoredOverview): EntityData<SessionOverviewRow> {
  const { repository, sandbox, usage, counts, createdAt, updatedAt, queuedMessages: _queued, ...same } = session;
  return {
    ...same,
    ...usage,
    ...counts,
    repositoryUrl: repository?.url ?? null,
    repositoryRef: repository?.ref ?? null,
    sandboxState: sandbox.state,
    sandboxId: sandbox.sandboxId,
    sandboxGeneration: sandbox.generation,
    createdAt: new Date(createdAt),
    updatedAt: new Date(updatedAt),
    lastHash: version.hash,
  };
}

function overviewOf(row: SessionOverviewRow): StoredOverview {
  const { turns, messages, replies, toolCalls, inputTokens, outputTokens, cachedInputTokens } = row;
  const session: SessionDetail = {
    id: row.id,
    title: row.title,
    model: row.model,
    provider: row.provider,
    repository: repositoryOf(row),
    status: row.status,
    openTurnId: row.openTurnId ?? null,
    lastTurn: row.lastTurn ?? null,
    queuedMessages: row.queue.length,
    queue: row.queue,
    queueHeld: row.queueHeld,
    sandbox: { state: row.sandboxState, sandboxId: row.sandboxId ?? null, generation: row.sandboxGeneration },
    usage: { inputTokens, outputTokens, cachedInputTokens },
    costUsd: row.costUsd,
    costComplete: row.costComplete,
    counts: { turns, messages, replies, toolCalls },
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
    lastSequence: row.lastSequence,
  };
  return { session, version: { sequence: row.lastSequence, hash: row.lastHash } };
}

function repositoryOf({ repositoryUrl, repositoryRef }: SessionOverviewRow): SessionDetail["repository"] {
  if (typeof repositoryUrl !== "string") return null;
  return { url: repositoryUrl, ...(typeof repositoryRef === "string" ? { ref: repositoryRef } : {}) };
}
