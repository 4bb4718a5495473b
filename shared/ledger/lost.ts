// A place in the ledger whose message is lost in every copy. Repair fills it, so that what stands after it keeps its
// sequence, which is what versions are made of.
import { z } from "zod";

const PREFIX = "ledger.lost.";
const FILLER = z.strictObject({ lost: z.literal(true), sequence: z.number().int().positive(), at: z.iso.datetime() });

/** Matches the stream's subjects and none of a shard's, so no service reacts to it. */
export function lostSubject(sequence: number): string {
  return `${PREFIX}${sequence}`;
}

export function isLost(subject: string): boolean {
  return subject.startsWith(PREFIX);
}

export function lostBytes(sequence: number, at: string): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(FILLER.parse({ lost: true, sequence, at })));
}
