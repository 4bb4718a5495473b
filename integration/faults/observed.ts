// What a run left behind, as the checks of the invariants look at it.
import type { PistisEvent, Writer } from "#schemas/ledger/event.ts";

export type ObservedMessage = Readonly<{
  id: string;
  session: string;
  sequence: number;
  writer: Writer;
  causationId: string | null;
  /** By the server's clock, milliseconds since the epoch. */
  storedAtMs: number;
  events: readonly PistisEvent[];
}>;

/** A line that a command wrote on the sandbox's disk when it began and when it ended. */
export type Mark = Readonly<{ session: string; id: string; kind: "start" | "end"; atMs: number }>;

/** A file that a `write` call named, with what is in it. */
export type WrittenFile = Readonly<{ session: string; id: string; content: string }>;

/** The turn that a session was asked for when all faults were over. */
export type LastTurn = Readonly<{
  session: string;
  messageId: string;
  /** Of its command; undefined where the model chooses its commands itself. */
  markId: string | undefined;
}>;

export type Observed = Readonly<{
  /** Of all sessions, in the order of the stream. */
  messages: readonly ObservedMessage[];
  marks: readonly Mark[];
  files: readonly WrittenFile[];
  /** Sessions whose disks were deleted with them: a mark or a file of theirs may be missing. */
  withoutDisk: ReadonlySet<string>;
  /** The session of each disk that was taken away as by a machine that burnt down. */
  disksLost: readonly string[];
  /** Messages that the gateway said it has stored. */
  accepted: readonly Readonly<{ session: string; messageId: string }>[];
  lastTurns: readonly LastTurn[];
}>;

/** What ties a call to what it leaves behind: its command, or its file's content, holds the mark's id. */
const MARK_ID = /\bmark-([0-9a-z]+-[0-9a-z-]+)\b/;

export function markIdOf(input: unknown): string | undefined {
  return MARK_ID.exec(JSON.stringify(input) ?? "")?.[1];
}

const OUTPUT_LINES = 4;

/** A command that says on disk that it began and that it ended, and writes numbered lines all the while. */
export function markCommand(id: string, seconds: number): string {
  const line = (kind: string) => `echo "${kind} mark-${id} $EPOCHREALTIME" >> /workspace/marks`;
  const numbers = Array.from({ length: OUTPUT_LINES }, (_, index) => index + 1).join(" ");
  const output = `for n in ${numbers}; do echo "out-${id} $n"; sleep ${(seconds / OUTPUT_LINES).toFixed(3)}; done`;
  return `${line("start")}; ${output}; ${line("end")}`;
}

/** Makes a mark command's output longer by so many bytes. */
export function fillerCommand(bytes: number): string {
  return `head -c ${bytes} /dev/zero | tr '\\0' x`;
}

const FILLER = /\bhead -c (\d+) \/dev\/zero/;

/** What the mark command of this input writes, with its filler if it has one. */
export function outputOfInput(input: unknown): string {
  const [, bytes = "0"] = FILLER.exec(JSON.stringify(input) ?? "") ?? [];
  return outputOf(markIdOf(input) ?? "") + "x".repeat(Number(bytes));
}

/** What the command writes, from the first to the last byte. */
export function outputOf(id: string): string {
  return Array.from({ length: OUTPUT_LINES }, (_, index) => `out-${id} ${index + 1}\n`).join("");
}

/** What a `write` call puts into its file. */
export function contentOf(id: string): string {
  return `${id}\n`;
}

const MARK_LINE = /^(start|end) mark-(\S+) (\d+[.,]\d+)$/;

export function readMarks(session: string, text: string): Mark[] {
  return text.split("\n").flatMap((line): Mark[] => {
    const [, kind, id = "", seconds = ""] = MARK_LINE.exec(line) ?? [];
    if (kind !== "start" && kind !== "end") return [];
    return [{ session, id, kind, atMs: Number(seconds.replace(",", ".")) * 1_000 }];
  });
}

export function startMarks(marks: readonly Mark[]): Map<string, Mark> {
  return new Map(marks.filter(({ kind }) => kind === "start").map((mark) => [mark.id, mark]));
}

export function endMarks(marks: readonly Mark[]): Map<string, Mark> {
  return new Map(marks.filter(({ kind }) => kind === "end").map((mark) => [mark.id, mark]));
}

export function eventsOf(messages: readonly ObservedMessage[]): PistisEvent[] {
  return messages.flatMap((message) => [...message.events]);
}
