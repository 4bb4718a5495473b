// Every operation of the HTTP API. The gateway mounts this table and the OpenAPI document is made from it,
// so that neither can have a route that the other lacks.
import { z } from "zod";
import type { ApiErrorCode } from "./error.ts";
import { callId, callOutputQuery, fileContentQuery, fileListing, filesQuery } from "./files.ts";
import { health, readiness } from "./health.ts";
import type { PathName } from "./paths.ts";
import {
  createdSession,
  createSession,
  endedSession,
  interrupted,
  messageId,
  postedMessage,
  postMessage,
  sessionDetail,
  sessionId,
  sessionPage,
  sessionPageQuery,
  withdrawnMessage,
} from "./session.ts";
import { eventsPage, eventsQuery, installStreamQuery, streamHeaders, streamQuery } from "./stream.ts";

/** Most of a request's body, in bytes. A message of a million characters fits, whatever they are. */
export const BODY_BYTES_MAX = 8 * 1024 * 1024;

type Answer = Readonly<{ status: number; summary: string } & ({ json: z.ZodType } | { media: string })>;

export type Operation = Readonly<{
  path: PathName;
  method: "get" | "post" | "delete";
  summary: string;
  /** Only health, readiness and the like go without the admin token. */
  open?: true;
  params?: z.ZodObject;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: z.ZodType;
  answers: readonly Answer[];
  errors: readonly ApiErrorCode[];
}>;

const ofSession = z.strictObject({ sessionId });
const sandboxErrors = ["session_not_found", "sandbox_not_up", "sandbox_unreachable", "too_many_streams"] as const;
const bodyErrors = ["body_too_large", "unsupported_media_type"] as const;

export const operations = {
  createSession: {
    path: "sessions",
    method: "post",
    summary: "Open a session, with its first message if there is one",
    body: createSession,
    answers: [{ status: 201, summary: "The session is stored", json: createdSession }],
    errors: [
      ...bodyErrors,
      "repository_url_has_credentials",
      "repository_url_invalid",
      "repository_path_not_absolute",
      "model_unknown",
      "provider_unknown",
    ],
  },
  listSessions: {
    path: "sessions",
    method: "get",
    summary: "List sessions, the one written to last first",
    query: sessionPageQuery,
    answers: [{ status: 200, summary: "One page", json: sessionPage }],
    errors: [],
  },
  getSession: {
    path: "session",
    method: "get",
    summary: "Read one session, as of its last ledger message",
    params: ofSession,
    answers: [{ status: 200, summary: "The session", json: sessionDetail }],
    errors: ["session_not_found"],
  },
  endSession: {
    path: "session",
    method: "delete",
    summary: "End a session and delete its sandbox for good",
    params: ofSession,
    answers: [{ status: 202, summary: "The end is asked for, or was before", json: endedSession }],
    errors: ["session_not_found"],
  },
  postMessage: {
    path: "messages",
    method: "post",
    summary: "Post a message; it is stored when this answers",
    params: ofSession,
    body: postMessage,
    answers: [{ status: 201, summary: "The message is stored, now or by an earlier request", json: postedMessage }],
    errors: [...bodyErrors, "session_not_found", "session_ended", "message_id_reused", "queue_full"],
  },
  withdrawMessage: {
    path: "message",
    method: "delete",
    summary: "Take back a message that the model has not seen",
    params: z.strictObject({ sessionId, messageId }),
    answers: [{ status: 200, summary: "The model will not see it", json: withdrawnMessage }],
    errors: ["session_not_found", "message_not_found", "already_delivered"],
  },
  interrupt: {
    path: "interrupt",
    method: "post",
    summary: "Stop the open turn: the running command ends and no new one starts",
    params: ofSession,
    answers: [{ status: 202, summary: "The turn is asked to stop", json: interrupted }],
    errors: ["session_not_found", "no_open_turn"],
  },
  listEvents: {
    path: "events",
    method: "get",
    summary: "Read a session's ledger by cursor",
    params: ofSession,
    query: eventsQuery,
    answers: [{ status: 200, summary: "One page, in order", json: eventsPage }],
    errors: ["session_not_found"],
  },
  streamSession: {
    path: "stream",
    method: "get",
    summary: "Follow a session: its ledger without gap or repeat, and live output between",
    params: ofSession,
    query: streamQuery,
    headers: streamHeaders,
    answers: [{ status: 200, summary: "Events `ledger` with an id and `live` without", media: "text/event-stream" }],
    errors: ["session_not_found", "too_many_streams"],
  },
  streamInstall: {
    path: "installStream",
    method: "get",
    summary: "Follow the ledger of the whole install",
    query: installStreamQuery,
    headers: streamHeaders,
    answers: [{ status: 200, summary: "Events `ledger` with an id", media: "text/event-stream" }],
    errors: ["too_many_streams"],
  },
  listFiles: {
    path: "files",
    method: "get",
    summary: "List files in the session's sandbox",
    params: ofSession,
    query: filesQuery,
    answers: [{ status: 200, summary: "The folder's entries", json: fileListing }],
    errors: [...sandboxErrors, "file_not_found", "outside_workspace"],
  },
  readFile: {
    path: "fileContent",
    method: "get",
    summary: "Download a file from the session's sandbox",
    params: ofSession,
    query: fileContentQuery,
    answers: [{ status: 200, summary: "The bytes, untrusted", media: "application/octet-stream" }],
    errors: [...sandboxErrors, "file_not_found", "not_a_file", "outside_workspace", "file_too_large"],
  },
  readCallOutput: {
    path: "callOutput",
    method: "get",
    summary: "Read a range of a command's whole output",
    params: z.strictObject({ sessionId, callId }),
    query: callOutputQuery,
    answers: [{ status: 200, summary: "The bytes, untrusted", media: "application/octet-stream" }],
    errors: [...sandboxErrors, "call_unknown"],
  },
  openapi: {
    path: "openapi",
    method: "get",
    summary: "This document",
    answers: [{ status: 200, summary: "OpenAPI 3.1", media: "application/json" }],
    errors: [],
  },
  health: {
    path: "health",
    method: "get",
    summary: "Is the process alive",
    open: true,
    answers: [{ status: 200, summary: "It is", json: health }],
    errors: [],
  },
  ready: {
    path: "ready",
    method: "get",
    summary: "Can the gateway do its work",
    open: true,
    answers: [
      { status: 200, summary: "It can", json: readiness },
      { status: 503, summary: "Something that it needs does not answer", json: readiness },
    ],
    errors: [],
  },
} as const satisfies { [operationId: string]: Operation };

export type OperationId = keyof typeof operations;
