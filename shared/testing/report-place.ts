import type { ReportPlace } from "#schemas/ledger/parts.ts";

/** The place of the so-many-th report, all of them stored in one second. */
export function reportPlace(sequence: number): ReportPlace {
  return { sequence, storedAt: "2026-11-30T12:00:00.000Z" };
}
