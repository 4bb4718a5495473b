// Calls of the engine's API. Each has a time limit; what fails is one of our own errors with the next step, and whoever
// expects a certain answer names its status: nobody reads the engine's words.
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import Docker from "dockerode";
import { z } from "zod";
import { API_VERSION } from "#shared/docker/names.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";

const CALL_MS_MAX = 180_000;
const RETRY_MS = 2_000;
const WORDS_MAX = 1_000;

export type Engine = Readonly<{ host: string; calls: Modem; streams: Modem }>;

export type EngineCall = Readonly<{
  method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  path: string;
  query?: Readonly<Record<string, string>>;
  body?: object;
  /** A tar file. */
  archive?: Buffer | Readable;
}>;

/** The engine answered, and not as asked. */
export class EngineRefused extends Retryable {
  readonly status: number;

  constructor(status: number, words: string, cause: unknown) {
    super("docker_failed", `Docker answered ${status}: ${words}`, {
      cause,
      retryAfterMs: RETRY_MS,
      next: "Look at the Docker daemon's log, then send the message again.",
    });
    this.status = status;
  }
}

type Dial = Readonly<{
  method: string;
  path: string;
  options?: object;
  file?: Buffer | Readable;
  isStream?: boolean;
  abortSignal?: AbortSignal;
  statusCodes: { [status: number]: true };
}>;
type Modem = { dial: (options: Dial, done: (error: unknown, result: unknown) => void) => void };

/** `host` as in `sandboxes.docker.host`. Nothing is asked yet. */
export function openEngine(host: string): Engine {
  const version = `v${API_VERSION}`;
  const calls: Modem = new Docker({ ...addressOf(host), version, timeout: CALL_MS_MAX }).modem;
  const streams: Modem = new Docker({ ...addressOf(host), version }).modem;
  return { host, calls, streams };
}

/** Every field is named, because what is left out would be taken from DOCKER_HOST. */
function addressOf(host: string) {
  if (host.startsWith("unix://")) return { socketPath: host.slice("unix://".length), host: undefined, port: undefined };
  const { protocol, hostname, port } = new URL(host);
  const secure = protocol === "https:";
  return {
    socketPath: undefined,
    host: hostname,
    port: port || (secure ? "443" : "80"),
    protocol: secure ? ("https" as const) : ("http" as const),
  };
}

/** The answer's content. Throws EngineRefused, Retryable `docker_unreachable`, or Refusal `docker_forbidden`, `docker_proxy_refused`. */
export async function ask<T>(engine: Engine, call: EngineCall, answer: z.ZodType<T>): Promise<T> {
  return answer.parse(await dial(engine, engine.calls, dialOf(call)));
}

/** As `ask`, for a call whose answer does not matter. */
export async function tell(engine: Engine, call: EngineCall): Promise<void> {
  await dial(engine, engine.calls, dialOf(call));
}

/** `otherwise` when the engine answers with one of `statuses`. */
export async function unless<T, O>(statuses: readonly number[], asked: Promise<T>, otherwise: O): Promise<T | O> {
  return asked.catch((error: unknown) => {
    if (error instanceof EngineRefused && statuses.includes(error.status)) return otherwise;
    throw error;
  });
}

/** The answer as it comes in. Its end is the caller's to wait for. */
export async function stream(engine: Engine, call: EngineCall, signal?: AbortSignal): Promise<IncomingMessage> {
  const asked = { ...dialOf(call), isStream: true, ...(signal === undefined ? {} : { abortSignal: signal }) };
  // The shape is dockerode's own promise about a call that streams.
  return (await dial(engine, signal === undefined ? engine.calls : engine.streams, asked)) as IncomingMessage;
}

function dialOf({ method, path, query, body, archive }: EngineCall): Dial {
  return {
    method,
    path: query === undefined ? path : `${path}?`,
    options: { _query: query ?? {}, _body: body ?? {} },
    ...(archive === undefined ? {} : { file: archive }),
    statusCodes: { 200: true, 201: true, 204: true },
  };
}

function dial(engine: Engine, modem: Modem, options: Dial): Promise<unknown> {
  return new Promise((resolve, reject) => {
    modem.dial(options, (error, result) => {
      if (error === null || error === undefined) resolve(result);
      else reject(failed(engine, error));
    });
  });
}

const refusedAnswer = z.object({
  statusCode: z.number(),
  /** `rule`: docker-proxy says so, not the engine. */
  json: z.object({ message: z.string(), rule: z.string().optional() }).optional().catch(undefined),
});
const systemError = z.object({ code: z.string() });

function failed({ host }: Engine, cause: unknown): Error {
  const answer = refusedAnswer.safeParse(cause).data;
  if (answer !== undefined) {
    const words = (answer.json?.message ?? "no reason given").slice(0, WORDS_MAX);
    if (answer.statusCode === 403 && isForGood(answer.json?.rule)) return proxyRefused(words, cause);
    return new EngineRefused(answer.statusCode, words, cause);
  }
  const code = systemError.safeParse(cause).data?.code;
  if (code === "EACCES" || code === "EPERM") {
    return new Refusal("docker_forbidden", `This user may not speak to Docker at ${host}`, {
      cause,
      next: "Add the user to the group that owns the socket, or set sandboxes.docker.host to docker-proxy's address.",
    });
  }
  return new Retryable(
    "docker_unreachable",
    `Docker does not answer at ${host}${code === undefined ? "" : ` (${code})`}`,
    {
      cause,
      retryAfterMs: RETRY_MS,
      next: "Start Docker (`systemctl start docker`), or set sandboxes.docker.host to where it is.",
    },
  );
}

/** What docker-proxy refuses, it refuses each time; only that a container runs may be over by the next. */
function isForGood(rule: string | undefined): boolean {
  return rule !== undefined && rule !== "engine" && rule !== "container_runs";
}

function proxyRefused(words: string, cause: unknown): Refusal {
  return new Refusal("docker_proxy_refused", words, {
    cause,
    next: "Give docker-proxy and provider-docker the same version, PISTIS_INSTALL_ID and sandboxes.docker of pistis.json, and start both again.",
  });
}
