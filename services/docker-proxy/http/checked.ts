import type { z } from "zod";
import { forbidden } from "./refused.ts";

type Issue = z.core.$ZodIssue;

/**
 * What the schema makes of a body or a query. Throws Refused 403: `key_refused` for a key that is not in the schema, else
 * `value_refused`, with the place of the first problem.
 */
export function checked<Schema extends z.ZodType>(schema: Schema, given: unknown): z.output<Schema> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues;
  const foreign = issues.find(({ code }) => code === "unrecognized_keys");
  if (foreign?.code === "unrecognized_keys") {
    const keys = foreign.keys.map((key) => placeOf([...foreign.path, key]));
    throw forbidden("key_refused", `${keys.slice(0, 5).join(", ")} is not let through`);
  }
  throw forbidden("value_refused", issues.slice(0, 1).map(sentence).join());
}

function sentence({ path, message }: Issue): string {
  return `${placeOf(path)}: ${message}`.slice(0, 500);
}

function placeOf(path: readonly PropertyKey[]): string {
  return path.length === 0 ? "The body" : path.map((part) => String(part).slice(0, 60)).join(".");
}
