// What the tests of links share.
import { expect } from "chai";
import { Kind, writeDataFrame, writeFrame } from "#schemas/wire/frame.ts";
import type { WireRequest } from "#schemas/wire/message.ts";
import { silentLog } from "#shared/service/log.ts";
import { type FrameSocket, startSandboxServer } from "#shared/testing/sandbox-peer.ts";
import { type ScriptedSandbox, scriptedSandbox } from "#shared/testing/scripted-sandbox.ts";
import type { LinkLimits } from "./limits.ts";
import type { SandboxLink } from "./link.ts";
import { openRelayLinks } from "./relay-link.ts";

export type LinkUnderTest = Readonly<{
  link: SandboxLink;
  sandbox: ScriptedSandbox;
  /** Cuts the connection; the sandbox is there again at once, as `boot`, in life `generation`. */
  cut: (again?: { boot?: string; generation?: number }) => Promise<void>;
  /** Cuts the connection for good. */
  remove: () => Promise<void>;
  close: () => Promise<void>;
}>;

export const MIB = 1024 * 1024;
export const excerpt = { headBytes: 1_000, tailBytes: 0 };
export const command = (callId: string) => ({
  callId,
  command: "make",
  timeoutMs: 60_000,
  background: false,
  excerpt,
});

/** Notes what comes, and lets a test wait until a number of bytes has. */
export function noteOutput() {
  const seen: Buffer[] = [];
  let waiting: Array<() => void> = [];
  const text = () => Buffer.concat(seen).toString();
  return {
    onOutput: ({ bytes }: { bytes: Uint8Array }) => {
      seen.push(Buffer.from(bytes));
      for (const wake of waiting.splice(0)) wake();
      waiting = [];
    },
    bytes: () => Buffer.concat(seen),
    text,
    until: async (wanted: string) => {
      while (!text().includes(wanted)) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}

export async function readAll(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no failure",
    (error: unknown) => error,
  );

export async function drain(bytes: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const chunk of bytes) expect(chunk.byteLength).to.be.above(0);
}

export const json = (content: unknown) => writeFrame(Kind.message, 0, Buffer.from(JSON.stringify(content)));
export const data = (stream: number, position: number, size: number) =>
  writeDataFrame(0, { stream, position, bytes: new Uint8Array(size) });

export const finished = {
  outcome: { status: "exited", exitCode: 0 },
  ...{ outputBytes: 100, keptBytes: 100, head: "", tail: "", durationMs: 1, leftRunning: false },
};

export type Attack = (socket: FrameSocket, id: number, stream: number) => void;

/** Answers the first request of that kind by hand. Its wire id is its place in the row of requests. */
export function answerByHand(sandbox: ScriptedSandbox, op: WireRequest["op"], attack: Attack): void {
  sandbox.override = (request, _reply, { socket }) => {
    if (request.op !== op) return false;
    sandbox.override = () => false;
    attack(socket, sandbox.requests.length, "stream" in request ? (request.stream ?? 0) : 0);
    return true;
  };
}

export function patterned(size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  for (let n = 0; n + 4 <= size; n += 4) bytes.writeUInt32BE(n, n);
  return bytes;
}

/** A sandbox that a link reaches without a relay. It can be away, and come back as another one. */
export async function setUp(limits: Partial<LinkLimits> = {}, reattachMs = 5_000) {
  const sandbox = scriptedSandbox();
  const world = { online: true, generation: 1 };
  const dials = { count: 0 };
  const server = await startSandboxServer({
    adminKey: "key",
    status: () => ({ ...world, bootId: world.online ? sandbox.bootId : null }),
    onPeer: (socket) => {
      dials.count += 1;
      sandbox.serve(socket, "one");
    },
  });
  const open = openRelayLinks({ relayUrl: server.url, adminKey: "key", reattachMs, log: silentLog, limits });
  const link = open({ sandboxId: "sbx_1", role: "brain", epoch: 7 });
  const cutAll = async (code?: number) => {
    const gone = [...server.peers].map(({ ws, closed }) => {
      if (code === undefined) ws.terminate();
      else ws.close(code);
      return closed;
    });
    await Promise.all(gone);
  };
  const close = async () => {
    await link.close();
    await server.close();
  };
  return { sandbox, world, dials, server, open, link, cutAll, close };
}
