import { z } from "zod";
import { LABELS, namePrefix } from "#shared/docker/names.ts";
import type { Role } from "./own.ts";

const value = z.string().max(200);

/** The labels of a new object: those of the install and the role, of the others what is given, and no further one. */
export function newLabels(key: string, role: Role) {
  return z.strictObject({
    [LABELS.install]: z.literal(key),
    [LABELS.role]: z.literal(role),
    [LABELS.sandbox]: value.optional(),
    [LABELS.session]: value.optional(),
    [LABELS.generation]: value.optional(),
    [LABELS.task]: value.optional(),
    [LABELS.spec]: value.optional(),
    [LABELS.previous]: value.optional(),
  });
}

/** A name that begins with the install's prefix; `rest` is a pattern for what follows it. */
export function newName(key: string, rest: string) {
  return z.string().regex(new RegExp(`^${namePrefix(key)}${rest}$`), "is no name that this install gives");
}

export const SANDBOX_NAME = "sbx_[0-9a-z]{1,64}-g[0-9]{1,9}";
export const PISTISD_NAME = "pistisd-[0-9a-f]{16}";
