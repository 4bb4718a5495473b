// One call that is let through: its method, its path, and what is done for it. What is in no list of calls does not exist.
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import type { Log } from "#shared/service/log.ts";
import type { Bodies } from "../bodies.ts";
import type { ProxyLimits } from "../limits.ts";
import type { Own } from "../own.ts";
import { checked } from "./checked.ts";
import { malformed } from "./refused.ts";

export type Desk = Own &
  Readonly<{
    bodies: Bodies;
    limits: ProxyLimits;
    log: Log;
    /** Ends what would go on for ever. */
    stopping: AbortSignal;
  }>;

/** `name`: what the path's pattern captures. */
export type Exchange = Readonly<{
  request: IncomingMessage;
  response: ServerResponse;
  name: string;
  query: Readonly<Record<string, string>>;
}>;

export type Call = Readonly<{
  method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  path: RegExp;
  handle: (desk: Desk, exchange: Exchange) => Promise<void>;
}>;

export const NO_QUERY = z.strictObject({});
export const flag = z.enum(["true", "false", "1", "0"]);

const filtersShape = z.strictObject({
  label: z.array(z.string().max(300)).max(10).optional(),
  type: z.tuple([z.literal("container")]).optional(),
  event: z
    .array(z.string().regex(/^[a-z_]{1,30}$/))
    .max(10)
    .optional(),
});

type Filters = z.output<typeof filtersShape>;

/** The filters that were asked for, and the install's label whatever was asked for: every label has to match. */
export function ownFilters(key: string, text: string | undefined, may: readonly (keyof Filters)[]): string {
  const given = text === undefined ? {} : checked(filtersShape, jsonOf(text));
  const foreign = Object.keys(given).find((name) => !may.some((known) => known === name));
  if (foreign !== undefined) throw malformed("filter_refused", `The filter ${foreign} is not for this call`);
  const own = `${LABELS.install}=${key}`;
  return JSON.stringify({ ...given, label: [own, ...(given.label ?? []).filter((label) => label !== own)] });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw malformed("filters_not_json", "The filters are not JSON");
  }
}
