// The tables. ledger_message is the mirror: the ledger's second copy. session_overview is a read model, made
// from the mirror alone. applied_sequence says how far each projection is, per shard. session_snapshot is a cache.
import { defineEntity, type InferEntity, p } from "@mikro-orm/postgresql";
import type { SessionDetail } from "#schemas/api/session.ts";

export const ledgerMessageEntity = defineEntity({
  name: "LedgerMessageRow",
  tableName: "ledger_message",
  properties: {
    session: p.text().primary(),
    sequence: p.bigint("number").$type<number>().primary(),
    message: p.uint8array(),
    at: p.datetime(3),
  },
});

export const sessionOverviewEntity = defineEntity({
  name: "SessionOverviewRow",
  tableName: "session_overview",
  properties: {
    id: p.text().primary(),
    title: p.text(),
    model: p.text(),
    provider: p.text(),
    repositoryUrl: p.text().nullable(),
    repositoryRef: p.text().nullable(),
    status: p.text().$type<SessionDetail["status"]>(),
    openTurnId: p.text().nullable(),
    lastTurn: p.json<SessionDetail["lastTurn"]>().nullable(),
    queue: p.json<SessionDetail["queue"]>(),
    queueHeld: p.boolean(),
    sandboxState: p.text().$type<SessionDetail["sandbox"]["state"]>(),
    sandboxId: p.text().nullable(),
    sandboxGeneration: p.integer(),
    inputTokens: p.bigint("number").$type<number>(),
    outputTokens: p.bigint("number").$type<number>(),
    cachedInputTokens: p.bigint("number").$type<number>(),
    costUsd: p.double().$type<number>(),
    costComplete: p.boolean(),
    turns: p.integer(),
    messages: p.integer(),
    replies: p.integer(),
    toolCalls: p.integer(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
    lastSequence: p.bigint("number").$type<number>(),
    lastHash: p.text(),
  },
});

export const appliedSequenceEntity = defineEntity({
  name: "AppliedSequenceRow",
  tableName: "applied_sequence",
  properties: {
    projection: p.text().primary(),
    shard: p.integer().primary(),
    sequence: p.bigint("number").$type<number>(),
  },
});

export const sessionSnapshotEntity = defineEntity({
  name: "SessionSnapshotRow",
  tableName: "session_snapshot",
  properties: {
    session: p.text().primary(),
    fold: p.text().primary(),
    foldVersion: p.integer(),
    sequence: p.bigint("number").$type<number>(),
    hash: p.text(),
    state: p.uint8array(),
  },
});

export type SessionOverviewRow = InferEntity<typeof sessionOverviewEntity>;
