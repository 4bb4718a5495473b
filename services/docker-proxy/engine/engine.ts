// The Docker engine behind its Unix socket. Every call is put together here from checked parts; no byte of a caller's
// request line or headers reaches it.
import { type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
import { API_VERSION } from "#shared/docker/names.ts";
import { Refused } from "../http/refused.ts";
import type { ProxyLimits } from "../limits.ts";

export type Engine = Readonly<{
  socketPath: string;
  limits: Pick<ProxyLimits, "answerBytesMax" | "engineMs">;
  /** Which version of the API it is spoken to in; asked for at the first call and again after it was away. */
  version: { known: string | undefined };
}>;

export type EngineCall = Readonly<{
  method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  /** Without the version; holds only characters that need no escape. */
  path: string;
  query?: Readonly<Record<string, string | undefined>>;
  json?: object;
  /** Instead of `json`: a tar file. */
  archive?: Readonly<{ content: Readable; check: NodeJS.ReadWriteStream }>;
}>;

export type EngineAnswer = Readonly<{ status: number; headers: IncomingHttpHeaders; body: Buffer }>;

export function openEngine(socketPath: string, limits: Engine["limits"]): Engine {
  return { socketPath, limits, version: { known: undefined } };
}

/** The whole answer, whatever its status. Throws Refused 502, 503 and 504 when there is none that can be used. */
export async function ask(engine: Engine, call: EngineCall): Promise<EngineAnswer> {
  const signal = AbortSignal.timeout(engine.limits.engineMs);
  const response = await stream(engine, call, signal);
  return { status: response.statusCode ?? 502, headers: response.headers, body: await bodyOf(engine, response) };
}

/** Resolves when the head of the answer has come. The call ends when `signal` does. */
export async function stream(engine: Engine, call: EngineCall, signal: AbortSignal): Promise<IncomingMessage> {
  const version = await versionOf(engine, signal);
  return send(engine, { ...call, path: `/v${version}${call.path}` }, signal);
}

const versions = z.object({ ApiVersion: z.string(), MinAPIVersion: z.string() });

/** Ours, unless the engine has grown too new for it. */
async function versionOf(engine: Engine, signal: AbortSignal): Promise<string> {
  if (engine.version.known !== undefined) return engine.version.known;
  const response = await send(engine, { method: "GET", path: "/version" }, signal);
  const parsed = versions.safeParse(parsedJson(await bodyOf(engine, response)));
  if (!parsed.success) throw new Refused(502, "engine_unclear", "The engine does not say its version");
  const oldest = parsed.data.MinAPIVersion;
  engine.version.known = minorOf(oldest) > minorOf(API_VERSION) ? oldest : API_VERSION;
  return engine.version.known;
}

const minorOf = (version: string) => Number(/^1\.(\d{1,3})$/.exec(version)?.[1] ?? 0);

function send(engine: Engine, call: EngineCall, signal: AbortSignal): Promise<IncomingMessage> {
  const { method, path, query, json, archive } = call;
  const body = json === undefined ? undefined : Buffer.from(JSON.stringify(json));
  const headers = {
    host: "docker",
    ...(body === undefined ? {} : { "content-type": "application/json", "content-length": body.byteLength }),
    ...(archive === undefined ? {} : { "content-type": "application/x-tar", "transfer-encoding": "chunked" }),
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  // A connection of its own for each call: one that is kept open may be gone by the time a command is written to it.
  const options = {
    socketPath: engine.socketPath,
    agent: false,
    method,
    path: path + queryText(query),
    headers,
    signal,
  };
  const outgoing = request(options, resolve);
  outgoing.once("error", (cause) => reject(unreachable(engine, cause, signal)));
  outgoing.once("upgrade", (_response, socket) => {
    socket.destroy();
    reject(new Refused(502, "engine_unclear", "The engine wants another protocol"));
  });
  if (archive === undefined) outgoing.end(body);
  else pipeline(archive.content, archive.check, outgoing).catch((cause: unknown) => reject(brokenOff(cause)));
  return promise;
}

function queryText(query: EngineCall["query"] = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

function unreachable(engine: Engine, cause: unknown, signal: AbortSignal): Refused {
  engine.version.known = undefined;
  if (signal.aborted) return new Refused(504, "engine_silent", "The Docker engine did not answer in time", { cause });
  return new Refused(503, "engine_unreachable", "The Docker engine does not answer on its socket", { cause });
}

/** Half a tar file does not reach the engine as a whole one: the connection to it is cut off. */
function brokenOff(cause: unknown): Refused {
  if (cause instanceof Refused) return cause;
  return new Refused(400, "body_broken_off", "The tar file broke off", { cause });
}

async function bodyOf(engine: Engine, response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response) {
      const bytes = Buffer.from(chunk);
      size += bytes.byteLength;
      if (size > engine.limits.answerBytesMax) break;
      chunks.push(bytes);
    }
  } catch (cause) {
    throw new Refused(503, "engine_unreachable", "The Docker engine broke off its answer", { cause });
  }
  if (size > engine.limits.answerBytesMax) {
    throw new Refused(
      502,
      "engine_answer_too_large",
      `The engine's answer has over ${engine.limits.answerBytesMax} bytes`,
    );
  }
  return Buffer.concat(chunks);
}

/** What the engine said; throws Refused 502 when it is not what its documentation promises. */
export function read<Schema extends z.ZodType>(schema: Schema, { body }: Pick<EngineAnswer, "body">): z.output<Schema> {
  const parsed = schema.safeParse(parsedJson(body));
  if (parsed.success) return parsed.data;
  throw new Refused(502, "engine_unclear", "The engine's answer has another form than documented");
}

function parsedJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch (cause) {
    throw new Refused(502, "engine_unclear", "The engine's answer is not JSON", { cause });
  }
}

const failure = z.object({ message: z.string() });

/** Throws the engine's own refusal, in its own words, unless the status is 200. */
export function assertOk(answer: EngineAnswer): void {
  if (answer.status === 200) return;
  const parsed = failure.safeParse(answer.status >= 400 ? parsedJson(answer.body) : undefined);
  throw new Refused(answer.status, "engine", parsed.success ? parsed.data.message : "The engine refused the call");
}
