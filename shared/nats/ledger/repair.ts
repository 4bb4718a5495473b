// Puts back from the mirror what JetStream has lost at its end. A version is a stream sequence, so each message has to
// come out at the sequence that it had: they are sent in the stream's order, each with the demand that the stream ends
// right before its place, with the message before it. Whoever writes in between is thereby noticed by the server itself,
// before any harm is done, and a repair that was broken off goes on where it stopped.
import { headers, type MsgHdrs, type NatsConnection, NatsError } from "nats";
import { z } from "zod";
import { LEDGER_STREAM, ledgerSubject } from "#schemas/ledger/subjects.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { readHead } from "#shared/ledger/codec.ts";
import { lostBytes, lostSubject } from "#shared/ledger/lost.ts";
import type { Mirror, MirroredMessage } from "#shared/ledger/mirror.ts";
import { lastSequence, standingOf } from "./standing.ts";
import { unavailable } from "./stream-reader.ts";

export type RepairParts = Readonly<{ nats: NatsConnection; shards: number; blobs: Blobs; mirror: Mirror }>;

export type RepairPlan = Readonly<{
  /** The ledger ends there; the first message to be put back has the sequence after it. */
  after: number;
  upTo: number;
  messages: number;
  /** Places between `after` and `upTo` for which the mirror has nothing either. */
  lost: number;
}>;

export type Repaired = Readonly<{ messages: number; lost: readonly number[] }>;

/** Each round trip to the server then stores this many. */
const IN_FLIGHT = 64;
const ACK_MS = 10_000;

const acknowledgement = z.object({
  seq: z.number().int().optional(),
  error: z.object({ description: z.string().optional(), err_code: z.number().optional() }).optional(),
});

/** Undefined when nothing is missing. Throws a Refusal `ledger_diverged` when new messages stand where the lost ones were. */
export async function planRepair({ nats, mirror }: RepairParts): Promise<RepairPlan | undefined> {
  const standing = await standingOf(nats, mirror);
  if (standing.status === "whole") return undefined;
  if (standing.status === "diverged") throw divergedAt(standing.from, standing.ledger, standing.mirror);
  const messages = await mirror.countAfter(standing.ledger);
  const places = standing.mirror - standing.ledger;
  return { after: standing.ledger, upTo: standing.mirror, messages, lost: places - messages };
}

/** `onProgress` hears the sequence that was reached. Throws a Refusal `ledger_written_to` when another one writes. */
export async function repairLedger(
  parts: RepairParts,
  plan: RepairPlan,
  onProgress: (sequence: number) => void,
): Promise<Repaired> {
  const lost: number[] = [];
  let messages = 0;
  for (let last = plan.after; last < plan.upTo; ) {
    const page = await parts.mirror.page(last, IN_FLIGHT);
    if (page.length === 0) break;
    const sending: Outgoing[] = [];
    for (const row of page) {
      for (last++; last < row.sequence; last++) {
        lost.push(last);
        sending.push(filler(last));
      }
      sending.push(await restored(parts, row));
    }
    messages += page.length;
    for (let start = 0; start < sending.length; start += IN_FLIGHT)
      await sendAll(parts.nats, sending.slice(start, start + IN_FLIGHT));
    onProgress(last);
  }
  await requireEnd(parts.nats, plan.upTo);
  return { messages, lost };
}

type Outgoing = Readonly<{ sequence: number; id: string; subject: string; types: string; bytes: Uint8Array }>;

async function restored({ shards, blobs }: RepairParts, row: MirroredMessage): Promise<Outgoing> {
  const { id, session, types } = await readHead(row, blobs);
  if (session !== row.session) {
    throw new Fatal("mirror_broken", `Row ${row.sequence} of the mirror stands under another session than its own`, {
      next: "Restore the database from a backup, or the NATS store instead",
    });
  }
  return { sequence: row.sequence, id, subject: ledgerSubject(session, shards), types, bytes: row.bytes };
}

function filler(sequence: number): Outgoing {
  const bytes = lostBytes(sequence, new Date().toISOString());
  return { sequence, id: `lost-${sequence}`, subject: lostSubject(sequence), types: "", bytes };
}

/** All at once: the server takes them in this order, and after one that it refuses it refuses the rest. */
async function sendAll(nats: NatsConnection, messages: readonly Outgoing[]): Promise<void> {
  const answers = messages.map((message, index) => send(nats, message, messages[index - 1]));
  const failed = (await Promise.allSettled(answers)).find((answer) => answer.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

/** As publish.ts wrote it, with its place in the stream as the demand: the sequence alone is no proof in a row. */
function headersOf({ sequence, id, types }: Outgoing, before: Outgoing | undefined): MsgHdrs {
  const list = headers();
  list.set("Nats-Msg-Id", id);
  list.set("Nats-Expected-Stream", LEDGER_STREAM);
  list.set("Nats-Expected-Last-Sequence", `${sequence - 1}`);
  if (before !== undefined) list.set("Nats-Expected-Last-Msg-Id", before.id);
  if (types !== "") list.set("Pistis-Types", types);
  return list;
}

async function send(nats: NatsConnection, message: Outgoing, before: Outgoing | undefined): Promise<void> {
  const { sequence, subject, bytes } = message;
  const options = { headers: headersOf(message, before), timeout: ACK_MS };
  const reply = await nats.request(subject, bytes, options).catch((cause: unknown) => {
    if (!(cause instanceof NatsError)) throw cause;
    throw unavailable(`No answer when message ${sequence} was put back: ${cause.message}; run it again`, cause);
  });
  const { seq, error } = acknowledgement.parse(reply.json());
  if (seq === sequence) return;
  const seen = error?.description ?? `it was stored at ${seq}`;
  throw new Refusal("ledger_written_to", `Message ${sequence} did not come to its place: ${seen}`, {
    next: "Stop every service of this install, then run `pistis ledger repair` again: it goes on from here",
  });
}

async function requireEnd(nats: NatsConnection, expected: number): Promise<void> {
  const last = await lastSequence(nats);
  if (last >= expected) return;
  throw new Fatal("ledger_repair_failed", `The ledger ends at ${last} after the repair, not at ${expected}`, {
    next: "Run `pistis ledger verify`",
  });
}

function divergedAt(from: number, ledger: number, mirror: number): Refusal {
  const text = `Nothing is changed: from sequence ${from} on, the ledger (up to ${ledger}) holds other messages than its copy in PostgreSQL (up to ${mirror}). Messages were lost and new ones were written in their place, or the two are of different installs`;
  return new Refusal("ledger_diverged", text, {
    next: "If NATS_URL and DATABASE_URL belong together: `pistis ledger verify --json` lists both sides. Either put an undamaged copy of the NATS store back, or stop everything, keep a copy of the NATS store, empty it and run `pistis ledger repair`: then the copy in PostgreSQL wins and what was written after the loss is gone",
  });
}
