// The requests about commands.
import { setImmediate as nextTurn } from "node:timers/promises";
import { type AttachResult, type ExecResult, type RequestOf, WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { Operation, Operations, RequestContext } from "../channel/operation.ts";
import type { StreamSender } from "../channel/sender.ts";
import { StreamClosed } from "../channel/sender.ts";
import type { Workspace } from "../files/workspace.ts";
import type { CallRecords, Ending, Finished } from "../state/call-records.ts";
import type { Calls, Started } from "./calls.ts";
import { type ExcerptLimits, execResultOf } from "./excerpt.ts";
import type { Spool } from "./spool.ts";

type CommandOps = "exec" | "attach" | "stop" | "processes" | "signal" | "outputRead";

export type CommandContext = Readonly<{
  calls: Calls;
  records: CallRecords;
  /** Whether a call without a record certainly never ran. */
  recordsComplete: boolean;
  workspace: Workspace;
  /** The ends of file operations that are under way. */
  openFileCalls: ReadonlyMap<string, Promise<void>>;
}>;

export function commandOperations(context: CommandContext): Pick<Operations, CommandOps> {
  return {
    exec: (request, channel) => exec(context, request, channel),
    attach: (request, channel) => attach(context, request, channel),
    stop: async ({ callId, graceMs }) => ({ stopped: await context.calls.stop(callId, graceMs) }),
    processes: async () => context.calls.list(),
    signal: async ({ callId, signal }) => ({ sent: context.calls.signal(callId, signal) }),
    outputRead: (request, channel) => outputRead(context, request, channel),
  };
}

async function exec(
  { calls, workspace }: CommandContext,
  request: RequestOf<"exec">,
  channel: RequestContext,
): Promise<ExecResult> {
  const cwd = workspace.directoryPath(request.cwd ?? ".");
  const sender = request.stream === undefined ? undefined : channel.sender(request.stream);
  const started = startOrClose(calls, request, cwd, sender);
  return finish(started, request.excerpt, sender, 0);
}

function startOrClose(
  calls: Calls,
  request: RequestOf<"exec">,
  cwd: string,
  sender: StreamSender | undefined,
): Started {
  try {
    return calls.start(request, cwd);
  } catch (error) {
    sender?.close();
    throw error;
  }
}

async function attach(
  context: CommandContext,
  request: RequestOf<"attach">,
  channel: RequestContext,
): Promise<AttachResult> {
  const { calls, records } = context;
  const sender = request.stream === undefined ? undefined : channel.sender(request.stream);
  const started = calls.find(request.callId);
  if (started !== undefined) {
    return { state: "finished", result: await finish(started, request.excerpt, sender, request.from) };
  }
  await context.openFileCalls.get(request.callId);
  const record = records.look(request.callId);
  if (record.status === "ended") {
    const spool = calls.output(request.callId);
    const finished = finishedOf(record.ending);
    const kept: Started = { finished: Promise.resolve(finished), spool, outputEnds: Promise.resolve() };
    return { state: "finished", result: await finish(kept, request.excerpt, sender, request.from) };
  }
  sender?.close();
  if (record.status === "open") return { state: "lost" };
  step("pistisd.call.barring");
  records.bar(request.callId);
  step("pistisd.call.barred");
  return context.recordsComplete || record.status === "barred" ? { state: "never-seen" } : { state: "lost" };
}

/** `end`: all of the output has been sent before the answer, which then says so. */
type Streaming = { readonly sender: StreamSender; answered: boolean; end: number | undefined };

/** Streams the output while the command runs; the answer does not wait for a reader that lags behind. */
async function finish(
  started: Started,
  excerpt: ExcerptLimits,
  sender: StreamSender | undefined,
  from: number,
): Promise<ExecResult> {
  const { finished, spool, outputEnds } = started;
  const streaming: Streaming | undefined = sender && { sender, answered: false, end: undefined };
  if (streaming !== undefined) {
    void pump(spool, streaming, from, outputEnds);
  }
  const ended = await finished;
  // What was read last goes out before the answer, unless the reader has no room for it.
  await nextTurn();
  const result = execResultOf(ended, spool, excerpt);
  if (streaming === undefined) return result;
  streaming.answered = true;
  if (streaming.end === undefined) return result;
  streaming.sender.close();
  return { ...result, streamEnd: streaming.end };
}

async function pump(spool: Spool, streaming: Streaming, from: number, outputEnds: Promise<unknown>): Promise<void> {
  const { sender } = streaming;
  let end: number | undefined;
  void outputEnds.then(() => {
    end = spool.totalBytes;
    spool.wake();
  });
  let position = from;
  try {
    for (;;) {
      if (position >= (end ?? spool.totalBytes)) {
        if (end !== undefined) break;
        await spool.changed();
        continue;
      }
      const room = await sender.room();
      if (position >= spool.keptBytes) position = Math.max(position, spool.oldestTail());
      const at = position;
      const length = Math.min(room, (end ?? spool.totalBytes) - position);
      const sent = sender.send(at, length, (target) => spool.readInto(target, at));
      if (sent === 0) break;
      position += sent;
    }
    const last = Math.max(position, end ?? position);
    if (streaming.answered) sender.end(last);
    else streaming.end = last;
  } catch (error) {
    if (!(error instanceof StreamClosed)) throw error;
  }
}

function finishedOf(ending: Ending): Finished {
  if (ending.is === "finished") return ending;
  const nothing = { outputBytes: 0, durationMs: 0, leftRunning: false };
  if (ending.is === "failed") return { outcome: { status: "failed", failure: ending.failure }, ...nothing };
  return { outcome: { status: "exited", exitCode: 0 }, ...nothing };
}

const outputRead = async (
  { calls }: CommandContext,
  request: RequestOf<"outputRead">,
  channel: RequestContext,
): ReturnType<Operation<"outputRead">> => {
  const spool = calls.output(request.callId);
  const outputBytes = spool.totalBytes;
  const from = Math.min(request.from, outputBytes);
  const length = readable(spool, from, Math.min(request.length, outputBytes - from));
  if (length < 0)
    throw new Refusal(WireCode.notFound, "That part of the output is not kept", { next: nextKept(spool) });
  const sender = channel.sender(request.stream);
  channel.afterAnswer(() => sendRange(spool, sender, from, from + length));
  return { outputBytes, from, length };
};

/** How much of a range is kept in one piece; -1 when its start is not. */
function readable(spool: Spool, from: number, length: number): number {
  if (from >= spool.totalBytes) return 0;
  if (from < spool.keptBytes) return Math.min(length, spool.keptBytes - from);
  return from >= spool.oldestTail() ? length : -1;
}

function nextKept(spool: Spool): string {
  return `Kept are the bytes before ${spool.keptBytes} and those from ${spool.oldestTail()} on`;
}

async function sendRange(spool: Spool, sender: StreamSender, from: number, to: number): Promise<void> {
  let position = from;
  while (position < to) {
    const at = position;
    const length = Math.min(await sender.room(), to - position);
    const sent = sender.send(at, length, (target) => spool.readInto(target, at));
    if (sent === 0) break;
    position += sent;
  }
  sender.end(position);
}
