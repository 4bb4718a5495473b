// How the relay hands a sandbox's connection to the egress service: one line that says who asks, one line back, then
// the sandbox's own bytes. What the sandbox itself says never names it.
import { z } from "zod";
import { networkQuestion } from "./question.ts";

export const GREETING_BYTES_MAX = 1_024;
/** The egress service's whole answer to a greeting that it takes; it closes on any other. */
export const GREETING_TAKEN = "ok\n";

export const egressGreeting = networkQuestion.extend({ key: z.string().min(1).max(500) });

export type EgressGreeting = z.output<typeof egressGreeting>;

/** `unix:/path` or `tcp://host:port`. */
export type EgressAddress = Readonly<{ path: string }> | Readonly<{ host: string; port: number }>;

export function parseEgressAddress(text: string): EgressAddress | undefined {
  if (/^unix:\/[^\0]+$/.test(text)) return { path: text.slice("unix:".length) };
  const [, host, port] = /^tcp:\/\/(\[[0-9a-fA-F:]+\]|[^:/\s]+):(\d{1,5})$/.exec(text) ?? [];
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535) return undefined;
  return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
}
