// One request of a sandbox to the egress service, and what became of it.
import { z } from "zod";

export const egressReason = z.enum([
  "ended", // it was let through and is over
  "open", // it was let through and goes on; another entry follows at its end
  "sandbox_unknown",
  "policy_unknown",
  "network_none",
  "host_not_allowed",
  "address_not_public",
  "name_unknown",
  "name_unresolved",
  "connect_failed",
  "request_malformed",
  "host_mismatch",
  "not_tls",
  "tls_malformed",
  "server_name_missing",
  "server_name_mismatch",
  "client_silent",
  "too_many_connections",
]);

const count = z.number().int().nonnegative();

export const egressRequest = z.strictObject({
  host: z.string().max(300).describe("As the sandbox asked for it, in normal form where it has one"),
  port: z.number().int().min(0).max(65_535).describe("0 where there is none"),
  via: z.enum(["connect", "http"]),
  allowed: z.boolean().describe("Whether it may be reached, not whether it answered"),
  reason: egressReason,
  bytesUp: count.describe("From the sandbox"),
  bytesDown: count.describe("To the sandbox"),
  durationMs: count,
});

/** What was too much to be told one by one. */
export const egressUntold = z.strictObject({ allowed: count, refused: count, bytesUp: count, bytesDown: count });

export const EGRESS_REQUESTS_MAX = 50;

export type EgressReason = z.output<typeof egressReason>;
export type EgressRequest = z.output<typeof egressRequest>;
export type EgressUntold = z.output<typeof egressUntold>;
