// What `pistis ledger verify` does.
import { mirrorReader } from "#shared/database/mirror.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Verification } from "#shared/ledger/verification.ts";
import { lastSequence } from "#shared/nats/ledger/standing.ts";
import { verifyLedger } from "#shared/nats/ledger/verify-ledger.ts";
import { requireLedger } from "#shared/nats/setup.ts";
import type { Context } from "../context.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import { progress } from "../terminal/progress.ts";
import { plural, table } from "../terminal/quantities.ts";
import { shownLine } from "../terminal/untrusted.ts";
import { type Stores, withStores } from "./stores.ts";

export type VerifyOptions = { session?: string; json?: boolean; state?: string; config?: string };

/** Prints what it found. Resolves with the exit code. */
export async function runVerify(context: Context, options: VerifyOptions): Promise<number> {
  const command = "pistis ledger verify";
  const found = await withStores(context, { ...options, command }, (stores) => verify(context, stores, options));
  const whole = found.faultySessions === 0;
  if (options.json) context.terminal.out(`${JSON.stringify({ whole, ...found }, undefined, 2)}\n`);
  else context.terminal.out(verificationText(context, found));
  return whole ? EXIT_OK : EXIT_FAILED;
}

/** Throws a Refusal `ledger_missing`. */
export async function verify(context: Context, stores: Stores, { session }: VerifyOptions): Promise<Verification> {
  const { nats, database, shards, blobs } = stores;
  await requireLedger(nats, shards).catch((error: unknown) => {
    if (!(error instanceof Refusal) || error.code !== "ledger_missing") throw error;
    const next = "`pistis ledger repair` makes it again from its copy in PostgreSQL";
    throw new Refusal("ledger_missing", error.message, { next });
  });
  const end = await lastSequence(nats);
  const onProgress = progress(context.terminal, "checked", () => end);
  return verifyLedger({ nats, shards, blobs, mirror: mirrorReader(database), session, onProgress });
}

export function verificationText({ terminal }: Pick<Context, "terminal">, found: Verification): string {
  const { messages, mirrored, notYetMirrored, sessions, lost, faults, faultySessions } = found;
  const lines = [
    `ledger  ${plural(messages, "message")} of ${plural(sessions, "session")}\n`,
    `mirror  ${plural(mirrored, "message")}${notYetMirrored === 0 ? "" : `; ${notYetMirrored} not copied yet`}\n`,
  ];
  if (lost.length > 0)
    lines.push(
      `lost    ${plural(lost.length, "message")} for good, as a repair found: ${lost.slice(0, 10).join(", ")}\n`,
    );
  if (faultySessions === 0)
    return `${lines.join("")}${terminal.paint("green", "whole:")} every hash chain holds, and both copies are the same\n`;
  const rows = faults.map(({ session, sequence, code, reason }) => [
    shownLine(session) || "(unknown)",
    `${sequence}`,
    code,
    shownLine(reason),
  ]);
  const count = `${plural(faultySessions, "session")} not whole; the first bad message of each:`;
  return `${lines.join("")}${terminal.paint("red", count)}\n${table([["SESSION", "SEQUENCE", "FAULT", "WHY"], ...rows])}${adviceFor(found)}`;
}

function adviceFor({ faults }: Verification): string {
  const codes = new Set(faults.map(({ code }) => code));
  if (codes.has("copies_differ") || codes.has("chain_broken"))
    return "  next: keep a copy of both stores, then compare the two: the copy whose chain holds is the right one\n";
  if (codes.has("missing_in_ledger")) return "  next: pistis ledger repair --dry-run\n";
  if (codes.has("missing_in_mirror"))
    return "  next: pistis projections rebuild, which copies it again; what was parked may need an update first that can read it\n";
  return "";
}
