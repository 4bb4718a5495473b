// What each operation of the API does.
import type { Readiness } from "#schemas/api/health.ts";
import { askDatabase } from "#shared/database/ask.ts";
import { listSessions } from "#shared/database/sessions.ts";
import { unlessAborted } from "#shared/errors/unless-aborted.ts";
import type { Choices } from "../choices.ts";
import { readNewest } from "../events/newest.ts";
import { readPage } from "../events/pages.ts";
import { type Streams, streamInstall, streamSession } from "../events/streams.ts";
import { viewOf } from "../events/view.ts";
import { listFiles, type SandboxFiles, sendFile, sendOutput } from "../files/sandbox-files.ts";
import { createSession, endSession, interruptTurn, postMessage, withdrawMessage } from "../session/requests.ts";
import { overviewOf, type Sessions } from "../session/sessions.ts";
import type { Handlers } from "./mount.ts";

const CHECK_MS = 3_000;

/** What the gateway needs, by name. A check throws when it is not there. */
export type Checks = Readonly<{ [name: string]: () => Promise<void> }>;

export type Api = Readonly<{
  sessions: Sessions;
  choices: Choices;
  streams: Streams;
  files: SandboxFiles;
  checks: Checks;
  openapi: unknown;
}>;

export function handlersOf(api: Api): Handlers {
  return { ...sessionHandlers(api), ...eventHandlers(api), ...fileHandlers(api), ...ownHandlers(api) };
}

type Some<Names extends keyof Handlers> = Pick<Handlers, Names>;

function sessionHandlers({
  sessions,
  choices,
}: Api): Some<
  "createSession" | "listSessions" | "getSession" | "endSession" | "postMessage" | "withdrawMessage" | "interrupt"
> {
  return {
    createSession: async ({ body }) => ({ status: 201, json: await createSession(sessions, choices, body) }),
    listSessions: async ({ query }) => ({ status: 200, json: await sessionPage(sessions, query) }),
    getSession: async ({ params }) => ({ status: 200, json: await overviewOf(sessions, params.sessionId) }),
    endSession: async ({ params }) => ({ status: 202, json: await endSession(sessions, params.sessionId) }),
    postMessage: async ({ params, body }) => ({
      status: 201,
      json: await postMessage(sessions, params.sessionId, body),
    }),
    withdrawMessage: async ({ params: { sessionId, messageId } }) => ({
      status: 200,
      json: await withdrawMessage(sessions, sessionId, messageId),
    }),
    interrupt: async ({ params }) => ({ status: 202, json: await interruptTurn(sessions, params.sessionId) }),
  };
}

function eventHandlers({ streams }: Api): Some<"listEvents" | "streamSession" | "streamInstall"> {
  return {
    listEvents: async ({ params, query }) => {
      const { after, before, limit } = query;
      const page =
        before === undefined
          ? await readPage(streams.pages, params.sessionId, after, limit)
          : await readNewest(streams.pages, params.sessionId, before, limit);
      return { status: 200, json: { ...page, messages: page.messages.map(viewOf) } };
    },
    streamSession: async ({ params, query, headers }, response) => {
      const after = headers["last-event-id"] ?? query.after;
      await streamSession(streams, { session: params.sessionId, after, last: query.last }, response);
      return undefined;
    },
    streamInstall: async ({ query, headers }, response) => {
      await streamInstall(streams, { ...query, after: headers["last-event-id"] ?? query.after }, response);
      return undefined;
    },
  };
}

function fileHandlers({ sessions, files }: Api): Some<"listFiles" | "readFile" | "readCallOutput"> {
  return {
    listFiles: async ({ params, query }) => {
      const session = await overviewOf(sessions, params.sessionId);
      return { status: 200, json: await listFiles(files, session, query) };
    },
    readFile: async ({ params, query }, response) => {
      await sendFile(files, await overviewOf(sessions, params.sessionId), query, response);
      return undefined;
    },
    readCallOutput: async ({ params: { sessionId, callId }, query }, response) => {
      await sendOutput(files, await overviewOf(sessions, sessionId), { callId, ...query }, response);
      return undefined;
    },
  };
}

function ownHandlers({ checks, openapi }: Api): Some<"openapi" | "health" | "ready"> {
  return {
    openapi: async () => ({ status: 200, json: openapi }),
    health: async () => ({ status: 200, json: { status: "ok" } }),
    ready: async () => {
      const readiness = await readinessOf(checks);
      return { status: readiness.status === "ready" ? 200 : 503, json: readiness };
    },
  };
}

/** Without the queues' texts: a list is for looking over. */
async function sessionPage({ database }: Sessions, query: { limit: number; cursor?: string | undefined }) {
  const { sessions, next } = await askDatabase(() => listSessions(database, query));
  return { sessions: sessions.map(({ queue: _queue, ...overview }) => overview), next };
}

async function readinessOf(checks: Checks): Promise<Readiness> {
  const entries = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => [name, await outcomeOf(check)] as const),
  );
  const failed = entries.some(([, outcome]) => outcome === "failed");
  return { status: failed ? "unready" : "ready", checks: Object.fromEntries(entries) };
}

function outcomeOf(check: () => Promise<void>): Promise<"ok" | "failed"> {
  return unlessAborted(check(), AbortSignal.timeout(CHECK_MS)).then(
    () => "ok",
    () => "failed",
  );
}
