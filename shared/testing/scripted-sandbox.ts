// A tiny pistisd for tests: it runs nothing, but keeps calls and their output as the protocol promises.
import {
  DATA_BYTES_MAX,
  type Frame,
  Kind,
  readCredit,
  readData,
  STREAM_WINDOW_BYTES,
  writeCreditFrame,
  writeDataFrame,
  writeFrame,
} from "#schemas/wire/frame.ts";
import {
  type AttachResult,
  type ExecResult,
  PROTOCOL_VERSION,
  type RequestOf,
  toSandbox,
  WireCode,
  type WireRequest,
} from "#schemas/wire/message.ts";
import type { FrameSocket } from "./sandbox-peer.ts";

type Call = { output: Buffer; result: ExecResult | undefined; changed: Set<() => void>; runs: number };

export type ScriptedSandbox = {
  bootId: string;
  readonly calls: Map<string, Call>;
  readonly barred: Set<string>;
  readonly files: Map<string, Buffer>;
  readonly requests: WireRequest[];
  /** Serves every channel of a relay connection (`many`) or one peer that is connected directly (`one`). */
  serve: (socket: FrameSocket, channels: "one" | "many") => void;
  /** Appends to the output of a call. */
  print: (callId: string, bytes: Uint8Array) => void;
  finish: (callId: string, exitCode?: number) => void;
  /** Resolves when a request with this op (and call id) has come. */
  asked: (op: WireRequest["op"], callId?: string) => Promise<WireRequest>;
  /** Given a request, answers it in its own way by returning true. */
  override: (request: WireRequest, reply: (message: object) => void, peer: Peer) => boolean;
};

export type Peer = { socket: FrameSocket; channel: number; credit: Map<number, Credit>; intake: Map<number, Intake> };
type Credit = { bytes: number; wake: () => void };
type Intake = { chunks: Buffer[]; size: number; done: (content: Buffer | undefined) => void };

export function scriptedSandbox(bootId = "boot1"): ScriptedSandbox {
  const waiting = new Set<() => void>();
  const sandbox: ScriptedSandbox = {
    bootId,
    calls: new Map(),
    barred: new Set(),
    files: new Map(),
    requests: [],
    serve: (socket, channels) => serve(sandbox, socket, channels, () => wakeAll(waiting)),
    print: (callId, bytes) => {
      const call = callOf(sandbox, callId);
      call.output = Buffer.concat([call.output, bytes]);
      wakeAll(call.changed);
    },
    finish: (callId, exitCode = 0) => {
      const call = callOf(sandbox, callId);
      call.result = resultOf(call.output, exitCode);
      wakeAll(call.changed);
    },
    asked: async (op, callId) => {
      for (;;) {
        const found = sandbox.requests.find(
          (one) => one.op === op && (callId === undefined || ("callId" in one && one.callId === callId)),
        );
        if (found !== undefined) return found;
        await new Promise<void>((resolve) => waiting.add(resolve));
      }
    },
    override: () => false,
  };
  return sandbox;
}

function wakeAll(waiting: Set<() => void>): void {
  const wakes = [...waiting];
  waiting.clear();
  for (const wake of wakes) wake();
}

function callOf(sandbox: ScriptedSandbox, callId: string): Call {
  const call = sandbox.calls.get(callId);
  if (call === undefined) throw new Error(`No call ${callId}`);
  return call;
}

function resultOf(output: Buffer, exitCode: number): ExecResult {
  const size = output.byteLength;
  const outcome = { status: "exited" as const, exitCode };
  const head = output.subarray(0, 1_000).toString("base64");
  return { outcome, outputBytes: size, keptBytes: size, head, tail: "", durationMs: 1, leftRunning: false };
}

function serve(sandbox: ScriptedSandbox, socket: FrameSocket, channels: "one" | "many", noted: () => void): void {
  const peers = new Map<number, Peer>();
  const open = (channel: number) => peers.set(channel, { socket, channel, credit: new Map(), intake: new Map() });
  if (channels === "one") open(0);
  socket.each((frame) => {
    if (frame.kind === Kind.open) open(frame.channel);
    const peer = peers.get(frame.channel);
    if (peer === undefined) return;
    if (frame.kind === Kind.close) leave(peers, peer);
    else onFrame(sandbox, peer, frame, noted);
  });
  void socket.closed.then(() => {
    for (const peer of peers.values()) leave(peers, peer);
  });
}

function leave(peers: Map<number, Peer>, peer: Peer): void {
  peers.delete(peer.channel);
  for (const intake of peer.intake.values()) intake.done(undefined);
  for (const credit of peer.credit.values()) credit.wake();
}

function onFrame(sandbox: ScriptedSandbox, peer: Peer, frame: Frame, noted: () => void): void {
  if (frame.kind === Kind.credit) {
    const { stream, bytes } = readCredit(frame.payload);
    const credit = peer.credit.get(stream);
    if (credit === undefined) return;
    credit.bytes += bytes;
    credit.wake();
  } else if (frame.kind === Kind.data) {
    take(peer, frame.payload);
  } else if (frame.kind === Kind.message) {
    const message = toSandbox.parse(JSON.parse(Buffer.from(frame.payload).toString()));
    if ("cancel" in message) return;
    sandbox.requests.push(message.request);
    noted();
    const reply = (content: object) =>
      peer.socket.send(
        writeFrame(Kind.message, peer.channel, Buffer.from(JSON.stringify({ id: message.id, ...content }))),
      );
    if (!sandbox.override(message.request, reply, peer)) void answer(sandbox, peer, message.request, reply);
  }
}

function take(peer: Peer, payload: Uint8Array): void {
  const { stream, bytes } = readData(payload);
  const intake = peer.intake.get(stream);
  if (intake === undefined) return;
  if (bytes.byteLength === 0) {
    peer.intake.delete(stream);
    const content = Buffer.concat(intake.chunks);
    intake.done(content.byteLength === intake.size ? content : undefined);
    return;
  }
  intake.chunks.push(Buffer.from(bytes));
  peer.socket.send(writeCreditFrame(peer.channel, stream, bytes.byteLength));
}

type Reply = (content: object) => void;

async function answer(sandbox: ScriptedSandbox, peer: Peer, request: WireRequest, reply: Reply): Promise<void> {
  switch (request.op) {
    case "hello":
      return reply({ answer: { protocol: PROTOCOL_VERSION, bootId: sandbox.bootId, version: "test" } });
    case "exec":
      return exec(sandbox, peer, request, reply);
    case "attach":
      return attach(sandbox, peer, request, reply);
    case "stop":
      sandbox.finish(request.callId, 143);
      return reply({ answer: { stopped: true } });
    case "outputRead":
      return readPart(peer, callOf(sandbox, request.callId).output, request, reply);
    case "fileRead":
      return readPart(peer, sandbox.files.get(request.path) ?? Buffer.alloc(0), request, reply);
    case "fileWrite":
      return fileWrite(sandbox, peer, request, reply);
    case "fileList":
      return reply({ answer: { entries: [], truncated: false } });
    case "processes":
      return reply({ answer: { processes: [] } });
    case "signal":
      return reply({ answer: { sent: true } });
    default:
      return reply({ failure: { code: WireCode.badRequest, message: `${request.op} is not scripted` } });
  }
}

async function exec(sandbox: ScriptedSandbox, peer: Peer, request: RequestOf<"exec">, reply: Reply): Promise<void> {
  const before = sandbox.calls.get(request.callId);
  if (before !== undefined) before.runs += 1;
  if (before !== undefined || sandbox.barred.has(request.callId)) {
    return reply({ failure: { code: WireCode.callSeen, message: "Seen before" } });
  }
  const call: Call = { output: Buffer.alloc(0), result: undefined, changed: new Set(), runs: 1 };
  sandbox.calls.set(request.callId, call);
  reply({ answer: await follow(peer, call, request.stream, 0) });
}

async function attach(sandbox: ScriptedSandbox, peer: Peer, request: RequestOf<"attach">, reply: Reply): Promise<void> {
  const call = sandbox.calls.get(request.callId);
  if (call === undefined) {
    sandbox.barred.add(request.callId);
    return reply({ answer: { state: "never-seen" } satisfies AttachResult });
  }
  const result = await follow(peer, call, request.stream, request.from);
  reply({ answer: { state: "finished", result } satisfies AttachResult });
}

/** Streams the output of a call until it is finished. */
async function follow(peer: Peer, call: Call, stream: number | undefined, from: number): Promise<ExecResult> {
  const pumped = stream === undefined ? undefined : pump(peer, call, stream, from);
  while (call.result === undefined) await new Promise<void>((resolve) => call.changed.add(resolve));
  await pumped;
  return call.result;
}

async function pump(peer: Peer, call: Call, stream: number, from: number): Promise<void> {
  const credit: Credit = { bytes: STREAM_WINDOW_BYTES, wake: () => undefined };
  peer.credit.set(stream, credit);
  for (let position = from; peer.socket.ws.readyState === peer.socket.ws.OPEN; ) {
    const length = Math.min(call.output.byteLength - position, credit.bytes, DATA_BYTES_MAX);
    if (length > 0) {
      const bytes = call.output.subarray(position, position + length);
      peer.socket.send(writeDataFrame(peer.channel, { stream, position, bytes }));
      position += length;
      credit.bytes -= length;
    } else if (call.result !== undefined && position >= call.output.byteLength) {
      peer.socket.send(writeDataFrame(peer.channel, { stream, position, bytes: new Uint8Array(0) }));
      return;
    } else {
      await new Promise<void>((resolve) => {
        credit.wake = resolve;
        call.changed.add(resolve);
      });
    }
  }
}

type Part = { op: "outputRead" | "fileRead"; from: number; length: number; stream: number };

async function readPart(peer: Peer, content: Buffer, { op, from, length, stream }: Part, reply: Reply): Promise<void> {
  const output = content.subarray(0, from + length);
  const size = content.byteLength;
  const part = { from, length: output.byteLength - from };
  reply({ answer: op === "fileRead" ? { size, mode: 0o644, ...part } : { outputBytes: size, ...part } });
  const call: Call = { output, result: resultOf(output, 0), changed: new Set(), runs: 0 };
  await pump(peer, call, stream, from);
}

async function fileWrite(
  sandbox: ScriptedSandbox,
  peer: Peer,
  { callId, path, size, stream }: RequestOf<"fileWrite">,
  reply: Reply,
): Promise<void> {
  const call: Call = { output: Buffer.alloc(0), result: undefined, changed: new Set(), runs: 1 };
  sandbox.calls.set(callId, call);
  const content = await new Promise<Buffer | undefined>((done) => peer.intake.set(stream, { chunks: [], size, done }));
  const failure = { code: "internal", message: "The stream was cut off" };
  call.result = resultOf(call.output, 0);
  if (content === undefined) call.result = { ...call.result, outcome: { status: "failed", failure } };
  else sandbox.files.set(path, content);
  wakeAll(call.changed);
  if (peer.socket.ws.readyState !== peer.socket.ws.OPEN) return;
  reply(content === undefined ? { failure } : { answer: { size, created: true } });
}
