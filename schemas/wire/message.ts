// What the server asks of pistisd, and what it answers. JSON in `message` frames.
//
// A channel's first request is `hello`. Streams carry bytes: whoever asks picks a stream number that is
// unused on its channel; the sender starts with STREAM_WINDOW_BYTES of credit.
import { z } from "zod";
import { probeAnswer, probeRequest } from "./probe.ts";

export const PROTOCOL_VERSION = 1;
export const PATH_BYTES_MAX = 4_096;
export const COMMAND_BYTES_MAX = 512 * 1024;

const callId = z.string().regex(/^[a-z]{2,10}_[0-9a-z]{1,64}$/);
const path = z.string().min(1).max(PATH_BYTES_MAX).describe("Absolute, or relative to /workspace; never leaves it");
const count = z.number().int().nonnegative();
const stream = z.number().int().min(1).max(0xffffffff);

export const failure = z.strictObject({
  code: z.string().max(100),
  message: z.string().max(4_000),
  next: z.string().max(2_000).optional(),
});

/** How many bytes of the start and of the end of an output stand in the result itself. */
export const excerptLimits = z.strictObject({ headBytes: count.max(256 * 1024), tailBytes: count.max(256 * 1024) });

export const requests = {
  hello: z.strictObject({
    op: z.literal("hello"),
    protocol: z.number().int(),
    role: z.enum(["brain", "service"]).describe("Only a brain has an epoch; a service copies files in and out"),
    epoch: z
      .number()
      .int()
      .positive()
      .optional()
      .describe("Older than the newest seen: refused as epoch_stale, as is all that follows"),
  }),
  exec: z.strictObject({
    op: z.literal("exec"),
    callId: callId.describe("Recorded on disk before the spawn; a second time is refused as call_seen"),
    command: z.string().min(1).max(COMMAND_BYTES_MAX).describe("For sh -c (bash where there is one)"),
    cwd: path.optional(),
    env: z.record(z.string().max(200), z.string().max(32_000)).optional(),
    timeoutMs: count.min(1),
    background: z.boolean().describe("Answer at once with a handle; the command goes on"),
    excerpt: excerptLimits,
    stream: stream.optional().describe("Send the output as it comes; it is kept either way"),
  }),
  attach: z.strictObject({
    op: z.literal("attach"),
    callId: callId.describe("Never seen: recorded as barred, so that it never will run"),
    excerpt: excerptLimits,
    stream: stream.optional(),
    from: count.describe("Position at which the stream goes on"),
  }),
  stop: z.strictObject({ op: z.literal("stop"), callId, graceMs: count.max(60_000) }),
  processes: z.strictObject({ op: z.literal("processes") }),
  signal: z.strictObject({
    op: z.literal("signal"),
    callId,
    signal: z.enum(["SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2"]),
  }),
  outputRead: z.strictObject({ op: z.literal("outputRead"), callId, from: count, length: count, stream }),
  fileRead: z.strictObject({ op: z.literal("fileRead"), path, from: count, length: count, stream }),
  fileWrite: z.strictObject({
    op: z.literal("fileWrite"),
    callId,
    path,
    size: count.describe("Bytes that the stream will carry; written to the side and renamed when complete"),
    mode: z.number().int().min(0).max(0o777).optional(),
    stream,
  }),
  fileEdit: z.strictObject({
    op: z.literal("fileEdit"),
    callId,
    path,
    edits: z
      .array(z.strictObject({ old: z.string().min(1), new: z.string(), all: z.boolean() }))
      .min(1)
      .max(100),
  }),
  fileList: z.strictObject({
    op: z.literal("fileList"),
    path,
    depth: count.min(1).max(20),
    entriesMax: count.min(1).max(10_000),
  }),
  fileSearch: z.strictObject({
    op: z.literal("fileSearch"),
    path,
    pattern: z.string().min(1).max(2_000).describe("JavaScript regular expression"),
    ignoreCase: z.boolean(),
    glob: z.string().max(500).optional().describe("Only files whose path matches, e.g. **/*.ts"),
    matchesMax: count.min(1).max(2_000),
    timeoutMs: count.min(1).max(60_000),
  }),
  probe: probeRequest,
};

export const request = z.discriminatedUnion("op", [
  requests.hello,
  requests.exec,
  requests.attach,
  requests.stop,
  requests.processes,
  requests.signal,
  requests.outputRead,
  requests.fileRead,
  requests.fileWrite,
  requests.fileEdit,
  requests.fileList,
  requests.fileSearch,
  requests.probe,
]);

export const execOutcome = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("exited"), exitCode: z.number().int() }),
  z.strictObject({ status: z.literal("signalled"), signal: z.string().max(40), outOfMemory: z.boolean() }),
  z.strictObject({ status: z.literal("timed-out"), timeoutMs: count }),
  z.strictObject({ status: z.literal("stopped") }),
  z.strictObject({ status: z.literal("background") }),
  z.strictObject({ status: z.literal("failed"), failure }).describe("It could not be spawned"),
]);

export const execResult = z.strictObject({
  outcome: execOutcome,
  outputBytes: count.describe("All bytes written, kept or not"),
  keptBytes: count.describe(
    "Bytes from the start that outputRead can give; those before the tail may be dropped beyond the limit",
  ),
  head: z.base64(),
  tail: z.base64().describe("The last bytes that are not part of head"),
  durationMs: count,
  leftRunning: z.boolean().describe("The shell ended, processes of its group go on: a handle is kept"),
  streamEnd: count.optional().describe("The stream is complete up to here; without it a frame of its own says so"),
});

/** The answer to attach. `lost`: pistisd itself was restarted while the call ran. */
export const attachResult = z.discriminatedUnion("state", [
  z
    .strictObject({ state: z.literal("finished"), result: execResult })
    .describe("Also sent when a running command ends"),
  z.strictObject({ state: z.literal("lost") }),
  z.strictObject({ state: z.literal("never-seen") }),
]);

export const fileEntry = z.strictObject({
  path: z.string().describe("Relative to the listed folder"),
  type: z.enum(["file", "directory", "symlink", "other"]),
  size: count,
  modifiedMs: z.number(),
});

export const answers = {
  hello: z.strictObject({ protocol: z.number().int(), bootId: z.string().max(100), version: z.string().max(50) }),
  exec: execResult,
  attach: attachResult,
  stop: z.strictObject({ stopped: z.boolean().describe("false: nothing of it was running") }),
  processes: z.strictObject({
    processes: z
      .array(
        z.strictObject({
          callId,
          command: z.string(),
          running: z.boolean(),
          outputBytes: count,
          startedAt: z.string(),
          outcome: execOutcome.optional(),
        }),
      )
      .max(1_000),
  }),
  signal: z.strictObject({ sent: z.boolean() }),
  outputRead: z.strictObject({
    outputBytes: count,
    from: count,
    length: count.describe("Bytes that the stream carries"),
  }),
  fileRead: z.strictObject({ size: count, from: count, length: count, mode: z.number().int() }),
  fileWrite: z.strictObject({ size: count, created: z.boolean() }),
  fileEdit: z.strictObject({ replacements: count, size: count }),
  fileList: z.strictObject({ entries: z.array(fileEntry), truncated: z.boolean() }),
  fileSearch: z.strictObject({
    matches: z.array(
      z.strictObject({ path: z.string(), line: z.number().int().positive(), text: z.string().max(1_000) }),
    ),
    truncated: z.boolean(),
    filesSearched: count,
  }),
  probe: probeAnswer,
};

export type Op = keyof typeof requests;
export type RequestOf<O extends Op> = z.output<(typeof requests)[O]>;
export type AnswerOf<O extends Op> = z.output<(typeof answers)[O]>;
export type WireRequest = z.output<typeof request>;
export type ExecResult = z.output<typeof execResult>;
export type ExecOutcome = z.output<typeof execOutcome>;
export type AttachResult = z.output<typeof attachResult>;

/** Server to sandbox. `cancel` withdraws a running request that has no effect of its own (reads, searches). */
export const toSandbox = z.union([
  z.strictObject({ id: z.number().int().positive(), request }),
  z.strictObject({ cancel: z.number().int().positive() }),
]);

/** Sandbox to server. The answer's own shape is checked against the request that it belongs to. */
export const toServer = z.union([
  z.strictObject({ id: z.number().int().positive(), answer: z.unknown() }),
  z.strictObject({ id: z.number().int().positive(), failure }),
]);

/** Failure codes of pistisd on which callers branch. */
export const WireCode = {
  epochStale: "epoch_stale",
  callSeen: "call_seen",
  callBarred: "call_barred",
  callUnknown: "call_unknown",
  outsideWorkspace: "outside_workspace",
  notFound: "not_found",
  notAFile: "not_a_file",
  tooLarge: "too_large",
  editNoMatch: "edit_no_match",
  editManyMatches: "edit_many_matches",
  diskFull: "disk_full",
  badRequest: "bad_request",
  badPattern: "bad_pattern",
  timedOut: "timed_out",
} as const;
