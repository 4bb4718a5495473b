import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { Refusal, Retryable } from "#shared/errors/errors.ts";

const TRIES = 2;
const NOT_THERE = new Set(["ENOTFOUND", "ENODATA", "NXDOMAIN"]);

/** The addresses of a name, IPv4 first. Throws Refusal `name_unknown`, Retryable `name_unresolved`. */
export type Resolve = (host: string) => Promise<string[]>;

/** Asks these name servers, or this machine's own where there are none. */
export function openResolve(options: { nameServers: readonly string[]; timeoutMs: number }): Resolve {
  const resolver = new Resolver({
    timeout: Math.ceil(options.timeoutMs / TRIES),
    tries: TRIES,
    maxTimeout: options.timeoutMs,
  });
  if (options.nameServers.length > 0) resolver.setServers([...options.nameServers]);
  return async (host) => {
    if (isIP(host) !== 0) return [host];
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (found.length > 0) return found;
    const reasons = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason as unknown] : []));
    throw failure(host, reasons);
  };
}

function failure(host: string, reasons: readonly unknown[]): Error {
  const codes = reasons.map((reason) => (reason instanceof Error && "code" in reason ? String(reason.code) : ""));
  const cause = new AggregateError(reasons);
  if (codes.every((code) => NOT_THERE.has(code))) {
    return new Refusal("name_unknown", `There is no ${host}`, { cause });
  }
  return new Retryable("name_unresolved", `The name servers do not answer for ${host}`, { cause, retryAfterMs: 1_000 });
}
