// What a client is told, in words that a person who reads a tool's output understands.
import { STATUS_CODES } from "node:http";
import type { EgressReason } from "#schemas/network/egress-request.ts";

const STATUS: Partial<Record<EgressReason, number>> = {
  request_malformed: 400,
  name_unknown: 502,
  name_unresolved: 503,
  connect_failed: 502,
  policy_unknown: 503,
  too_many_connections: 429,
};

const TEXTS: Partial<Record<EgressReason, string>> = {
  network_none: "this sandbox has no network",
  host_not_allowed: "it is not among the hosts that this sandbox may reach (sandboxes.allow in pistis.json)",
  sandbox_unknown: "this sandbox is not known any more",
  address_not_public: "it leads to an address that is not public",
  host_mismatch: "the Host header names another host than the one that was asked for",
  request_malformed: "the request is not one to a proxy: CONNECT host:port, or http://host/path with one Host header",
  name_unknown: "there is no such host",
  name_unresolved: "its name could not be looked up right now",
  connect_failed: "it cannot be reached",
  policy_unknown: "what this sandbox may reach cannot be looked up right now; try again in a moment",
  too_many_connections: "this sandbox has too many connections open",
};

export type RefusalAnswer = Readonly<{ status: number; headers: Record<string, string>; body: string }>;

export function refusalAnswer(reason: EgressReason, what: string): RefusalAnswer {
  const body = `Pistis refused ${what}: ${TEXTS[reason] ?? reason} (${reason}).\n`;
  return {
    status: STATUS[reason] ?? 403,
    headers: {
      connection: "close",
      "content-type": "text/plain; charset=utf-8",
      "content-length": String(Buffer.byteLength(body)),
      "x-pistis-reason": reason,
    },
    body,
  };
}

/** The same as bytes, for a connection that no HTTP server answers on. Tools show the status line of a CONNECT. */
export function refusalBytes(reason: EgressReason, what: string): string {
  const { status, headers, body } = refusalAnswer(reason, what);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Refused"} (${reason})\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
}
