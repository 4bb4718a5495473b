// The real SandboxLink: one WebSocket through the relay to one sandbox.
import type { Duplex } from "node:stream";
import { answers, PROTOCOL_VERSION, type RequestOf } from "#schemas/wire/message.ts";
import { relayPaths } from "#schemas/wire/relay-http.ts";
import type { Log } from "#shared/service/log.ts";
import { Connection } from "./connection.ts";
import { type LinkLimits, linkLimits } from "./limits.ts";
import { type OpenLink, type SandboxLink, SandboxLost } from "./link.ts";
import { editFile, writeFile } from "./operations/change.ts";
import { attach, execute } from "./operations/command.ts";
import { ask } from "./operations/question.ts";
import { read } from "./operations/reading.ts";
import { Requests } from "./requests.ts";
import { Waiters } from "./waiters.ts";

export type RelayLinkOptions = Readonly<{
  /** http(s)://host:port of the relay. */
  relayUrl: string;
  adminKey: string;
  /** A way to a relay that runs in this process; over the network when absent. */
  connect?: (() => Duplex) | undefined;
  /** How long a request waits for a sandbox that went away, milliseconds. */
  reattachMs: number;
  log: Log;
  limits?: Partial<LinkLimits>;
}>;

/** What a service needs to know of the relay; `connect` when it runs in the same process. */
export type RelayAccess = Readonly<{ url: string; key: string; connect?: (() => Duplex) | undefined }>;

export function linkAccess({
  url,
  key,
  connect,
}: RelayAccess): Pick<RelayLinkOptions, "relayUrl" | "adminKey" | "connect"> {
  return { relayUrl: url, adminKey: key, connect };
}

type Peer = Parameters<OpenLink>[0];

/** Opens links over the relay. A link dials at once and stays connected until it is closed. */
export function openRelayLinks(options: RelayLinkOptions): OpenLink {
  return (peer) => openLink(options, peer);
}

function openLink(
  { relayUrl, adminKey, connect, reattachMs, log, ...rest }: RelayLinkOptions,
  peer: Peer,
): SandboxLink {
  const { sandboxId, role, epoch, bootId } = peer;
  const limits: LinkLimits = { ...linkLimits, ...rest.limits };
  const waiters = new Waiters();
  const wire = {
    send: (frame: Uint8Array, left?: () => void) => connection.send(frame, left),
    boot: () => connection.boot,
  };
  const requests = new Requests(wire, limits, { reattachMs, effectsOnlyTo: bootId });
  const failAll = (error: Error) => {
    requests.failAll(error);
    waiters.fail(error);
  };
  // The connection says it whenever the sandbox is (again) there, with the epoch of that moment.
  const hello: Hello = { role, ...(epoch === undefined ? {} : { epoch }) };
  const connection = new Connection({
    url: socketUrl(relayUrl, sandboxId),
    adminKey,
    connect,
    hello,
    limits,
    log,
    nextId: () => requests.nextId(),
    events: {
      ready: (boot) => {
        requests.ready(boot);
        waiters.ready(boot);
      },
      lost: () => requests.disconnected(),
      frame: (frame) => requests.receive(frame),
      breached: (breach) =>
        failAll(new SandboxLost("unreachable", `The sandbox broke the protocol: ${breach.message}`, { cause: breach })),
      refused: failAll,
      turnedAway: (refusal) => {
        // Of what was sent nobody can say how it ended.
        const message = `The sandbox takes no connection: ${refusal.message}`;
        requests.failAll(new SandboxLost("unreachable", message, { cause: refusal }));
        waiters.fail(refusal);
      },
      isWaitedFor: () => requests.size + waiters.size > 0,
    },
  });
  return linkOf({ sandboxId, hello, connection, requests, waiters });
}

function socketUrl(relayUrl: string, sandboxId: string): string {
  const url = new URL(relayPaths.attach(sandboxId), relayUrl);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

type Hello = Omit<RequestOf<"hello">, "op" | "protocol">;
type Parts = Readonly<{
  sandboxId: string;
  hello: Hello;
  connection: Connection;
  requests: Requests;
  waiters: Waiters;
}>;

function linkOf({ sandboxId, hello, connection, requests, waiters }: Parts): SandboxLink {
  /** Throws what makes the link useless; dials when nobody has for a while. */
  const usable = () => {
    if (connection.error !== undefined) throw connection.error;
    connection.wake();
    return requests;
  };
  const repeats = { repeats: true, takesMs: 0 };
  return {
    sandboxId,
    ready: async (withinMs) => {
      usable();
      return connection.boot ?? waiters.wait(withinMs);
    },
    raiseEpoch: async (epoch) => {
      hello.epoch = epoch;
      await ask(usable(), { op: "hello", protocol: PROTOCOL_VERSION, ...hello }, answers.hello, repeats);
    },
    exec: async (request, options = {}) => execute(usable(), request, options),
    attach: async (request, options = {}) => attach(usable(), request, options),
    stop: async (callId, graceMs) =>
      ask(usable(), { op: "stop", callId, graceMs }, answers.stop, { repeats: true, takesMs: graceMs }),
    processes: async () => ask(usable(), { op: "processes" }, answers.processes, repeats),
    signal: async (request) =>
      ask(usable(), { op: "signal", ...request }, answers.signal, { repeats: false, takesMs: 0 }),
    readOutput: (callId, from, length) => lazily(() => readOutput(usable(), callId, from, length)),
    readFile: (path, from, length) => readFile(usable(), path, from, length),
    writeFile: async (request, content) => writeFile(usable(), request, content),
    editFile: async (request) => (await editFile(usable(), request)) ?? edited(usable(), request),
    listFiles: async (request) => ask(usable(), { op: "fileList", ...request }, answers.fileList, repeats),
    searchFiles: async (request) =>
      ask(usable(), { op: "fileSearch", ...request }, answers.fileSearch, {
        repeats: true,
        takesMs: request.timeoutMs,
      }),
    probe: async (request) =>
      ask(usable(), { op: "probe", ...request }, answers.probe, { repeats: true, takesMs: request.timeoutMs }),
    close: async () => {
      const error = new SandboxLost("unreachable", "The link was closed");
      const gone = connection.close(error);
      requests.failAll(error);
      waiters.fail(error);
      await gone;
    },
  };
}

/** An edit that only its record proves to be made: at least each of its replacements was. */
async function edited(requests: Requests, { path, edits }: Omit<RequestOf<"fileEdit">, "op">) {
  const { size } = await readFile(requests, path, 0, 0).info;
  return { replacements: edits.length, size };
}

function readFile(requests: Requests, path: string, from: number, length: number) {
  return read(requests, {
    from,
    length,
    request: (stream, start, rest) => ({ op: "fileRead", path, from: start, length: rest, stream }),
    parse: (answer) => answers.fileRead.parse(answer),
  });
}

function readOutput(requests: Requests, callId: string, from: number, length: number): AsyncIterable<Uint8Array> {
  return read(requests, {
    from,
    length,
    request: (stream, start, rest) => ({ op: "outputRead", callId, from: start, length: rest, stream }),
    parse: (answer) => answers.outputRead.parse(answer),
  }).bytes;
}

/** Asks only when the first bytes are wanted. */
async function* lazily(open: () => AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* open();
}
