// Who asks: the admin key or a sandbox's own secret, as a bearer. Never in a URL, never in a log line.
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

const BEARER = /^Bearer ([\w.~+/=-]{1,200})$/;

export function bearerOf(request: IncomingMessage): string | undefined {
  return BEARER.exec(request.headers.authorization ?? "")?.[1];
}

/** A check against the key whose duration tells nothing about it. */
export function keyCheck(key: string): (request: IncomingMessage) => boolean {
  const expected = createHash("sha256").update(key).digest();
  return (request) => {
    const given = createHash("sha256")
      .update(bearerOf(request) ?? "")
      .digest();
    return timingSafeEqual(given, expected);
  };
}

/** Counts per name in windows of one minute. Returns whether the name is still within its limit. */
export function perMinute(limit: number, now: () => number): (name: string) => boolean {
  const NAMES_MAX = 10_000;
  let counts = new Map<string, number>();
  let window = 0;
  return (name) => {
    const minute = Math.floor(now() / 60_000);
    if (minute !== window || counts.size >= NAMES_MAX) counts = new Map();
    window = minute;
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count <= limit;
  };
}
