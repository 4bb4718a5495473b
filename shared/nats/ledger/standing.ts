// How the ledger stands to its second copy, the mirror in PostgreSQL. The mirror follows the ledger, so a ledger that
// ends before it, or that holds something else at the same sequence, has lost what it had acknowledged.
import { type NatsConnection, NatsError } from "nats";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { MirrorScan } from "#shared/ledger/mirror.ts";
import { WHOLE_LEDGER } from "./scan.ts";
import { nextMessage, unavailable } from "./stream-reader.ts";

export type Standing = Readonly<{ ledger: number; mirror: number }> &
  Readonly<
    | { status: "whole" }
    /** The ledger ends before the mirror does. */
    | { status: "behind" }
    /** `from`: the first sequence at which the two were seen to hold different messages. */
    | { status: "diverged"; from: number }
  >;

const ASK_MS = 5_000;

/** The stream's last sequence. Throws a Retryable `ledger_unavailable`. */
export async function lastSequence(nats: NatsConnection): Promise<number> {
  try {
    const manager = await nats.jetstreamManager({ checkAPI: false, timeout: ASK_MS });
    return (await manager.streams.info(LEDGER_STREAM)).state.last_seq;
  } catch (cause) {
    if (cause instanceof NatsError) throw unavailable(`The ledger does not answer: ${cause.message}`, cause);
    throw cause;
  }
}

/** Looks at the two ends only: quick, whatever the size. `pistis ledger verify` compares everything. */
export async function standingOf(nats: NatsConnection, mirror: MirrorScan): Promise<Standing> {
  const newest = (await mirror.lastUpTo())?.sequence ?? 0;
  // Asked for second: what is appended meanwhile is in the ledger first.
  const ledger = await lastSequence(nats);
  const ends = { ledger, mirror: newest };
  if (!(await agreesAt(nats, mirror, ledger)))
    return { ...ends, status: "diverged", from: await divergence(nats, mirror, ledger) };
  return newest > ledger ? { ...ends, status: "behind" } : { ...ends, status: "whole" };
}

/** Throws a Refusal `ledger_behind_mirror` or `ledger_diverged`: whoever appends now makes the loss final. */
export function requireWhole(standing: Standing): void {
  const { ledger, mirror } = standing;
  if (standing.status === "behind") {
    throw new Refusal(
      "ledger_behind_mirror",
      `The ledger has lost messages: it ends at ${ledger} and its copy in PostgreSQL at ${mirror}`,
      {
        next: "Run `pistis ledger repair`, which puts them back. Nothing may write before that",
      },
    );
  }
  if (standing.status === "diverged") {
    throw new Refusal(
      "ledger_diverged",
      `From sequence ${standing.from} on, the ledger and its copy in PostgreSQL are not the same`,
      {
        next: "Check that NATS_URL and DATABASE_URL belong to one install. Then see `pistis ledger verify` and `pistis ledger repair --help`",
      },
    );
  }
}

/** Whether the last mirrored message at or before `sequence` is in the ledger as the mirror has it. */
async function agreesAt(nats: NatsConnection, mirror: MirrorScan, sequence: number): Promise<boolean> {
  const row = await mirror.lastUpTo(sequence);
  if (row === undefined) return true;
  const found = await nextMessage(nats, row.sequence, WHOLE_LEDGER);
  return found?.sequence === row.sequence && Buffer.compare(found.bytes, row.bytes) === 0;
}

/** Halves the distance: before the place where they part the two are alike, after it they are not. */
async function divergence(nats: NatsConnection, mirror: MirrorScan, upTo: number): Promise<number> {
  let [alike, different] = [0, upTo];
  while (different - alike > 1) {
    const middle = Math.floor((alike + different) / 2);
    if (await agreesAt(nats, mirror, middle)) alike = middle;
    else different = middle;
  }
  return different;
}
