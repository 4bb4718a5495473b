// Running a command: sent once; after a reconnect pistisd is only asked about it (`attach`), and the output
// goes on at its position.
import {
  type AttachResult,
  answers,
  type ExecResult,
  type RequestOf,
  type WireRequest,
} from "#schemas/wire/message.ts";
import { SandboxBreach } from "../breach.ts";
import { Incoming } from "../incoming.ts";
import { type AttachOptions, CallNotRun, type ExecOptions, type OutputChunk, SandboxLost } from "../link.ts";
import type { Requests } from "../requests.ts";
import { lostCall, refusalOf, replaced } from "./outcome.ts";

const NOTHING = new Uint8Array(0);
/** A longer timer would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

type Command = Readonly<{
  callId: string;
  excerpt: RequestOf<"attach">["excerpt"];
  start: number;
  first: (stream: number | undefined) => WireRequest;
  parseFirst: (answer: unknown) => AttachResult;
  takesMs: number;
  hasEffect: boolean;
  /** Only for what has no effect: how long its answer is waited for, whatever the connections do. */
  withinMs?: number | undefined;
  onOutput: ExecOptions["onOutput"];
}>;

export async function execute(
  requests: Requests,
  request: Omit<RequestOf<"exec">, "op" | "stream">,
  { onOutput }: ExecOptions,
): Promise<ExecResult> {
  const result = await follow(requests, {
    callId: request.callId,
    excerpt: request.excerpt,
    start: 0,
    first: (stream) => ({ op: "exec", ...request, ...(stream === undefined ? {} : { stream }) }),
    parseFirst: (answer) => ({ state: "finished", result: answers.exec.parse(answer) }),
    takesMs: request.background ? 0 : request.timeoutMs,
    hasEffect: true,
    onOutput: request.background ? undefined : onOutput,
  });
  return resultOf(result);
}

export function attach(
  requests: Requests,
  request: Omit<RequestOf<"attach">, "op" | "stream">,
  { onOutput, withinMs }: AttachOptions,
): Promise<AttachResult> {
  return follow(requests, {
    callId: request.callId,
    excerpt: request.excerpt,
    start: request.from,
    first: (stream) => ({ op: "attach", ...request, ...(stream === undefined ? {} : { stream }) }),
    parseFirst: (answer) => answers.attach.parse(answer),
    takesMs: Number.POSITIVE_INFINITY,
    hasEffect: false,
    withinMs,
    onOutput,
  });
}

function resultOf(attached: AttachResult): ExecResult {
  if (attached.state === "finished") return attached.result;
  if (attached.state === "lost") throw new SandboxLost("restarted", "pistisd was restarted while the call ran");
  throw new CallNotRun("pistisd never saw the call and has barred it");
}

/** Follows a command to its end and its output to the last byte, over any number of connections. */
async function follow(requests: Requests, command: Command): Promise<AttachResult> {
  const { callId, excerpt, onOutput, withinMs } = command;
  const incoming = onOutput === undefined ? undefined : new Incoming({ start: command.start, mayJump: true });
  const done = Promise.withResolvers<AttachResult>();
  let known: AttachResult | undefined;
  let isFirst = true;
  const entry = requests.start({
    ...(incoming === undefined ? {} : { incoming }),
    takesMs: command.takesMs,
    hasEffect: command.hasEffect,
    request: (stream, before, now) => {
      isFirst = before === undefined;
      const lost = replaced(before, now);
      if (lost !== undefined) return lost;
      const wanted = incoming === undefined || incoming.ended ? undefined : stream;
      if (isFirst) return command.first(wanted);
      const from = incoming?.position ?? command.start;
      return { op: "attach", callId, excerpt, from, ...(wanted === undefined ? {} : { stream: wanted }) };
    },
    answered: (answer) => {
      const result = isFirst ? command.parseFirst(answer) : answers.attach.parse(answer);
      endStream(result, incoming);
      checkAgainst(result, incoming);
      known = result;
      if (result.state !== "finished") incoming?.finish();
      done.resolve(result);
    },
    failed: (failure) => {
      incoming?.finish();
      done.reject(refusalOf(failure));
    },
    lost: (error, sent) => {
      incoming?.finish();
      if (known === undefined) done.reject(lostCall(error, sent));
    },
  });
  const giveUp = () => {
    requests.cancel(entry);
    incoming?.finish();
    done.reject(new SandboxLost("unreachable", `The sandbox told no end of the call within ${withinMs} ms`));
  };
  const timer = withinMs === undefined ? undefined : setTimeout(giveUp, Math.min(withinMs, TIMER_MS_MAX));
  const stopTimer = () => clearTimeout(timer);
  done.promise.then(stopTimer, stopTimer);
  const [result] = await Promise.all([done.promise, incoming && onOutput && deliver(incoming, onOutput)]);
  return result;
}

function endStream(answer: AttachResult, incoming: Incoming | undefined): void {
  const end = answer.state === "finished" ? answer.result.streamEnd : undefined;
  if (end !== undefined && incoming?.ended === false) incoming.receive(end, NOTHING);
}

function checkAgainst(result: AttachResult, incoming: Incoming | undefined): void {
  const jump = incoming?.firstJump;
  if (result.state === "finished" && jump !== undefined && jump < result.result.keptBytes) {
    throw new SandboxBreach("The output left out bytes that are kept");
  }
  if (result.state === "never-seen" && (incoming?.arrivedBytes ?? 0) > 0) {
    throw new SandboxBreach("A call that was never seen had output");
  }
}

/** Gives everything to `onOutput` in order. When that throws, the rest is read and dropped, and the error thrown at the end. */
async function deliver(incoming: Incoming, onOutput: (chunk: OutputChunk) => void | Promise<void>): Promise<void> {
  let failure: { error: unknown } | undefined;
  for (let chunk = await incoming.take(); chunk !== undefined; chunk = await incoming.take()) {
    if (failure !== undefined) continue;
    try {
      const given = onOutput(chunk);
      if (given !== undefined) await given;
    } catch (error) {
      failure = { error };
    }
  }
  if (failure !== undefined) throw failure.error;
}
