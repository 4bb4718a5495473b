// What every answer that is not a success looks like. Callers branch on `code`.
import { z } from "zod";

export const apiError = z
  .strictObject({
    code: z.string().max(100).describe("Stable name to branch on"),
    message: z.string().max(4_000).describe("For people; may change"),
    next: z.string().max(2_000).optional().describe("What the caller should do next"),
    issues: z
      .array(z.strictObject({ path: z.string(), message: z.string() }))
      .max(20)
      .optional()
      .describe("With invalid_request: each part of the request that does not fit"),
  })
  .meta({ id: "Error" });

export type ApiError = z.output<typeof apiError>;

/** Codes that the gateway itself gives, with the status that each is answered with. */
export const apiErrorStatus = {
  invalid_request: 400,
  unauthorized: 401,
  host_not_allowed: 403,
  route_not_found: 404,
  session_not_found: 404,
  message_not_found: 404,
  file_not_found: 404,
  call_unknown: 404,
  method_not_allowed: 405,
  already_delivered: 409,
  no_open_turn: 409,
  session_ended: 409,
  message_id_reused: 409,
  sandbox_not_up: 409,
  body_too_large: 413,
  file_too_large: 413,
  unsupported_media_type: 415,
  repository_url_has_credentials: 422,
  repository_url_invalid: 422,
  repository_path_not_absolute: 422,
  model_unknown: 422,
  provider_unknown: 422,
  not_a_file: 422,
  outside_workspace: 422,
  queue_full: 429,
  too_many_streams: 429,
  internal: 500,
  sandbox_unreachable: 503,
  unavailable: 503,
  ledger_unavailable: 503,
  database_unavailable: 503,
} as const;

export type ApiErrorCode = keyof typeof apiErrorStatus;
