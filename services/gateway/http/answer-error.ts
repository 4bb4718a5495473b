// Every failure becomes one of the API's typed errors. The caller is told a code, what happened and what to do
// next; what went wrong inside is for the log alone.
import type { ErrorRequestHandler, Response } from "express";
import { z } from "zod";
import { type ApiError, type ApiErrorCode, apiErrorStatus } from "#schemas/api/error.ts";
import { WireCode } from "#schemas/wire/message.ts";
import { Fatal, failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import { VersionConflict } from "#shared/ledger/ledger.ts";
import type { Log } from "#shared/service/log.ts";

const ISSUES_MAX = 20;

/** Codes of pistisd, as the API calls them. */
const sandboxCodes: { [code: string]: ApiErrorCode } = {
  [WireCode.notFound]: "file_not_found",
  [WireCode.notAFile]: "not_a_file",
  [WireCode.outsideWorkspace]: "outside_workspace",
  [WireCode.callUnknown]: "call_unknown",
  [WireCode.tooLarge]: "file_too_large",
};

/** What express throws by itself: while it reads a body, and for a path that cannot be decoded. */
const httpErrors: { [status: number]: ApiError & { code: ApiErrorCode } } = {
  400: {
    code: "invalid_request",
    message: "The request cannot be read",
    next: "Send a JSON object, and percent-encode the path.",
  },
  413: {
    code: "body_too_large",
    message: "The request's body is too large",
    next: "Send less; put large content into a file of the repository.",
  },
  415: {
    code: "unsupported_media_type",
    message: "The request's charset or content encoding is not known",
    next: "Send JSON in UTF-8, as it is or as gzip, deflate or br.",
  },
};

const httpError = z.object({ status: z.number().int() });

export class InvalidRequest extends Error {
  override readonly name = "InvalidRequest";
  readonly issues: ApiError["issues"];
  constructor(where: string, { issues }: z.ZodError) {
    super(`The ${where} does not fit`);
    this.issues = issues.slice(0, ISSUES_MAX).map(({ path, message }) => ({
      path: [where, ...path.map(String)].join("."),
      message: message.slice(0, 1_000),
    }));
  }
}

export function errorHandler(log: Log): ErrorRequestHandler {
  // Express tells an error handler by its four parameters.
  return (error: unknown, request, response, _next) => {
    const { code, ...rest } = apiErrorOf(error);
    if (apiErrorStatus[code] >= 500) log.error({ path: request.path, failure: failureOf(error) }, "A request failed");
    if (response.headersSent) {
      response.destroy();
      return;
    }
    if (error instanceof Retryable) response.setHeader("retry-after", String(Math.ceil(error.retryAfterMs / 1_000)));
    sendError(response, { code, ...rest });
  };
}

export function sendError(response: Response, error: ApiError & { code: ApiErrorCode }): void {
  response.status(apiErrorStatus[error.code]).json(error satisfies ApiError);
}

export function apiErrorOf(error: unknown): ApiError & { code: ApiErrorCode } {
  if (error instanceof InvalidRequest) return invalidRequest(error);
  if (error instanceof VersionConflict) return unavailable("The session is being written to by others all the time");
  if (error instanceof Refusal) return refused(error);
  if (error instanceof Retryable) return { ...refused(error, "unavailable") };
  const http = httpError.safeParse(error);
  const known = http.success ? httpErrors[http.data.status] : undefined;
  if (known !== undefined) return known;
  if (error instanceof Fatal) return { ...internal(), next: error.next ?? internal().next };
  return internal();
}

function invalidRequest({ message, issues }: InvalidRequest): ApiError & { code: ApiErrorCode } {
  const next = "Correct the parts that `issues` names; GET /v1/openapi.json says what fits.";
  return { code: "invalid_request", message, next, issues };
}

function refused(error: Refusal | Retryable, otherwise: ApiErrorCode = "invalid_request") {
  const code = isApiErrorCode(error.code) ? error.code : (sandboxCodes[error.code] ?? otherwise);
  const next = error.next ?? (error instanceof Retryable ? "Try again in a moment." : "Correct the request.");
  return { code, message: error.message.slice(0, 4_000), next };
}

function unavailable(message: string): ApiError & { code: ApiErrorCode } {
  return { code: "unavailable", message, next: "Try again in a moment." };
}

function internal(): ApiError & { code: ApiErrorCode; next: string } {
  const next = "Look at the gateway's log; run `pistis doctor`.";
  return { code: "internal", message: "The gateway could not answer", next };
}

function isApiErrorCode(code: string): code is ApiErrorCode {
  return Object.hasOwn(apiErrorStatus, code);
}
