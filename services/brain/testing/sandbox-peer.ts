// A sandbox for the brain's own tests: it is a folder of this machine and real processes, in this process, behind
// the same SandboxLink that the relay's client offers. It keeps pistisd's promises that the brain counts on: a call
// runs once, a stale epoch is refused, an asked-about call that was never seen is barred.
import { mkdir, mkdtemp, rm, writeFile as writeToDisk } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AttachResult, type ExecResult, type RequestOf, WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import {
  CallNotRun,
  type ExecOptions,
  type OpenLink,
  type SandboxLink,
  SandboxLost,
} from "#shared/sandbox-link/link.ts";
import { editFile, listFiles, readFile, searchFiles, writeFile } from "./peer-files.ts";
import { PeerProcess } from "./peer-process.ts";

export type PeerEvent = Readonly<{ op: string; callId?: string; epoch: number }>;
type Plain<O extends "exec" | "attach"> = Omit<RequestOf<O>, "op" | "stream">;
type Kept = { process?: PeerProcess; barred: boolean; background?: boolean };

export class SandboxPeer {
  readonly sandboxId: string;
  readonly folder: string;
  bootId = "boot-1";
  /** Everything that reached the sandbox, in order. */
  readonly received: PeerEvent[] = [];
  readonly calls = new Map<string, Kept>();
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();
  #epoch = 0;
  #lost = neverYet();
  #back: PromiseWithResolvers<void> | undefined;

  private constructor(sandboxId: string, folder: string) {
    this.sandboxId = sandboxId;
    this.folder = folder;
  }

  static async open(sandboxId: string): Promise<SandboxPeer> {
    return new SandboxPeer(sandboxId, await mkdtemp(join(tmpdir(), "pistis-peer-")));
  }

  readonly openLink: OpenLink = ({ epoch = 0, bootId }) => peerLink(this, epoch, bootId);

  /** Resolves when the sandbox can be reached. */
  async online(): Promise<void> {
    await this.#back?.promise;
  }

  /** From now on nothing reaches the sandbox and no answer comes back, until `comeBack`. */
  goOffline(): void {
    this.#back = Promise.withResolvers<void>();
  }

  comeBack(): void {
    this.#back?.resolve();
    this.#back = undefined;
  }

  /** What a link does after `reattachMs` without an answer: every open request fails. */
  giveUp(code: "unreachable" | "restarted"): void {
    this.#lost.reject(new SandboxLost(code, `The sandbox is ${code}`));
    this.#lost = neverYet();
  }

  /** pistisd starts anew: its processes are gone, its record of calls is not. */
  restart(bootId: string): void {
    this.bootId = bootId;
    for (const { process } of this.calls.values()) process?.stop(0);
  }

  async close(): Promise<void> {
    for (const { process } of this.calls.values()) process?.stop(0);
    await Promise.all([...this.calls.values()].map(({ process }) => process?.ended));
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Resolves when a request of this kind has arrived. */
  async has(op: string): Promise<void> {
    if (this.received.some((event) => event.op === op)) return;
    const waiting = this.#waiting.get(op) ?? Promise.withResolvers<void>();
    this.#waiting.set(op, waiting);
    await waiting.promise;
  }

  /** Makes an empty file, for a command that waits for it. */
  async touch(name: string): Promise<void> {
    await writeToDisk(join(this.folder, name), "");
  }

  async makeFolder(name: string): Promise<void> {
    await mkdir(join(this.folder, name));
  }

  /** The path on this machine of one in the sandbox. */
  path(inside: string): string {
    if (inside !== "/workspace" && !inside.startsWith("/workspace/")) {
      throw new Refusal(WireCode.outsideWorkspace, `${inside} is outside /workspace`);
    }
    return join(this.folder, inside.slice("/workspace".length));
  }

  async receive<Value>(event: PeerEvent, answer: () => Promise<Value> | Value): Promise<Value> {
    const { promise: lost } = this.#lost;
    await Promise.race([this.online(), lost]);
    if (event.epoch < this.#epoch) {
      throw new Refusal(WireCode.epochStale, `Epoch ${event.epoch} is older than ${this.#epoch}`);
    }
    this.#epoch = event.epoch;
    this.received.push(event);
    this.#waiting.get(event.op)?.resolve();
    const value = await Promise.race([answer(), lost]);
    await Promise.race([this.online(), lost]);
    return value;
  }
}

function neverYet(): PromiseWithResolvers<never> {
  const lost = Promise.withResolvers<never>();
  lost.promise.catch(() => undefined);
  return lost;
}

function peerLink(peer: SandboxPeer, firstEpoch: number, onlyTo: string | undefined): SandboxLink {
  let epoch = firstEpoch;
  const receive = <Value>(op: string, answer: () => Promise<Value> | Value, callId?: string) =>
    peer.receive(callId === undefined ? { op, epoch } : { op, epoch, callId }, answer);
  const change = <Value>(op: string, answer: () => Promise<Value> | Value, callId: string) => {
    if (onlyTo !== undefined && onlyTo !== peer.bootId) throw new CallNotRun(`${onlyTo} is over`);
    return receive(op, answer, callId);
  };
  return {
    sandboxId: peer.sandboxId,
    ready: (withinMs) => ready(peer, withinMs, () => receive("hello", () => ({ bootId: peer.bootId }))),
    raiseEpoch: (newer) => {
      epoch = newer;
      return receive("hello", () => undefined);
    },
    exec: async (request, options) => change("exec", () => exec(peer, request, options), request.callId),
    attach: (request, options) => receive("attach", () => attach(peer, request, options), request.callId),
    stop: (callId, graceMs) =>
      receive("stop", () => ({ stopped: peer.calls.get(callId)?.process?.stop(graceMs) ?? false }), callId),
    signal: ({ callId, signal }) =>
      receive("signal", () => ({ sent: peer.calls.get(callId)?.process?.signal(signal) ?? false }), callId),
    processes: () => receive("processes", () => ({ processes: processes(peer) })),
    readOutput: (callId, from, length) => readOutput(peer, callId, { from, length }),
    readFile: (path, from, length) => readFile(peer.path(path), from, length),
    writeFile: async (request, content) =>
      change("fileWrite", () => writeFile(peer.path(request.path), content), request.callId),
    editFile: async (request) =>
      change("fileEdit", () => editFile(peer.path(request.path), request.edits), request.callId),
    listFiles: (request) => receive("fileList", () => listFiles(peer.path(request.path), request)),
    searchFiles: (request) => receive("fileSearch", () => searchFiles(peer.path(request.path), request)),
    probe: () => receive("probe", () => ({ findings: [] })),
    close: async () => undefined,
  };
}

async function ready<Value>(peer: SandboxPeer, withinMs: number, hello: () => Promise<Value>): Promise<Value> {
  const lost = Promise.withResolvers<never>();
  const late = () => lost.reject(new SandboxLost("unreachable", `No answer within ${withinMs} ms`));
  // A closed link waits for nothing; this one is never told.
  const timer = setTimeout(late, withinMs).unref();
  try {
    return await Promise.race([peer.online().then(hello), lost.promise]);
  } finally {
    clearTimeout(timer);
  }
}

async function exec(peer: SandboxPeer, request: Plain<"exec">, options?: ExecOptions): Promise<ExecResult> {
  const kept = peer.calls.get(request.callId);
  if (kept?.barred) throw new Refusal(WireCode.callBarred, `${request.callId} is barred`);
  if (kept !== undefined) throw new Refusal(WireCode.callSeen, `${request.callId} ran already`);
  const cwd = peer.path(request.cwd ?? "/workspace");
  const process = new PeerProcess({ ...request, cwd }, options?.onOutput);
  peer.calls.set(request.callId, { process, barred: false, background: request.background });
  return request.background ? process.inBackground() : process.ended;
}

async function attach(peer: SandboxPeer, request: Plain<"attach">, options?: ExecOptions): Promise<AttachResult> {
  const kept = peer.calls.get(request.callId);
  if (kept?.process === undefined) {
    peer.calls.set(request.callId, { barred: true });
    return { state: "never-seen" };
  }
  const { output } = kept.process;
  if (output.byteLength > request.from) {
    await options?.onOutput?.({ position: request.from, bytes: output.subarray(request.from) });
  }
  return { state: "finished", result: kept.background ? kept.process.inBackground() : await kept.process.ended };
}

function processes(peer: SandboxPeer) {
  return [...peer.calls].flatMap(([callId, { process }]) => (process === undefined ? [] : [process.describe(callId)]));
}

async function* readOutput(peer: SandboxPeer, callId: string, range: { from: number; length: number }) {
  const process = peer.calls.get(callId)?.process;
  if (process === undefined) throw new Refusal(WireCode.callUnknown, `${callId} is not known`);
  yield process.output.subarray(range.from, range.from + range.length);
}
