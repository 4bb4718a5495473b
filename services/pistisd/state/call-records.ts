// One file per call id, created exclusively before the call has any effect (I2). Its lines are what became of
// the call. A file whose last line is no ending belongs to a call that was cut off with the daemon.
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { execOutcome, failure, WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Reserve } from "./reserve.ts";

const line = z.discriminatedUnion("is", [
  z.object({ is: z.literal("command"), command: z.string(), at: z.string() }),
  z.object({ is: z.literal("file"), at: z.string() }),
  z.object({ is: z.literal("barred"), at: z.string() }),
  z.object({
    is: z.literal("finished"),
    outcome: execOutcome,
    outputBytes: z.number(),
    durationMs: z.number(),
    leftRunning: z.boolean(),
  }),
  z.object({ is: z.literal("failed"), failure }),
  z.object({ is: z.literal("done") }),
]);

type Line = z.output<typeof line>;
export type Finished = Omit<Extract<Line, { is: "finished" }>, "is">;
export type Ending = Extract<Line, { is: "finished" | "failed" | "done" }>;
type Beginning = Extract<Line, { is: "command" | "file" | "barred" }>;

export type CallRecord =
  | { status: "never-seen" }
  | { status: "barred" }
  | { status: "open" }
  | { status: "ended"; ending: Ending };

export type CallRecords = Readonly<{
  directory: string;
  /** Throws Refusal `call_seen` or `call_barred` for an id that has a record. */
  begin: (callId: string, beginning: Beginning) => void;
  end: (callId: string, ending: Ending) => void;
  /** Never seen: the id is barred in the same step, so that it never will run. */
  look: (callId: string) => CallRecord;
  bar: (callId: string) => void;
}>;

export function openCallRecords(stateDirectory: string, reserve: Reserve): CallRecords {
  const directory = join(stateDirectory, "calls");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const pathOf = (callId: string) => join(directory, callId);
  const create = (callId: string, beginning: Beginning) => reserve.spend(() => createRecord(pathOf(callId), beginning));

  const records: CallRecords = {
    directory,
    begin: (callId, beginning) => {
      if (create(callId, beginning)) return;
      if (records.look(callId).status === "barred") {
        throw new Refusal(WireCode.callBarred, `${callId} was asked about before it came and is barred`);
      }
      throw new Refusal(WireCode.callSeen, `${callId} was seen before and does not run again`);
    },
    end: (callId, ending) => appendLine(pathOf(callId), "a", ending),
    look: (callId) => readRecord(pathOf(callId)),
    bar: (callId) => {
      create(callId, { is: "barred", at: new Date().toISOString() });
    },
  };
  return records;
}

function createRecord(path: string, beginning: Beginning): boolean {
  try {
    appendLine(path, "ax", beginning);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    // Half a record would say that the call may have run.
    rmSync(path, { force: true });
    throw error;
  }
}

function appendLine(path: string, flags: "a" | "ax", content: Line): void {
  const file = openSync(path, flags, 0o600);
  try {
    writeSync(file, `${JSON.stringify(content)}\n`);
  } finally {
    closeSync(file);
  }
}

function readRecord(path: string): CallRecord {
  const lines = readLines(path);
  if (lines === undefined) return { status: "never-seen" };
  if (lines.some((entry) => entry.is === "barred")) return { status: "barred" };
  const ending = lines.findLast((entry) => entry.is === "finished" || entry.is === "failed" || entry.is === "done");
  return ending === undefined ? { status: "open" } : { status: "ended", ending };
}

function readLines(path: string): Line[] | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
  return text.split("\n").flatMap(parseLine);
}

/** A line that was cut off by a crash counts as never written. */
function parseLine(text: string): Line[] {
  try {
    const parsed = line.safeParse(JSON.parse(text));
    return parsed.success ? [parsed.data] : [];
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}
