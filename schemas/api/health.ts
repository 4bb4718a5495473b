import { z } from "zod";

export const health = z.strictObject({ status: z.literal("ok") }).meta({ id: "Health" });

export const readiness = z
  .strictObject({
    status: z.enum(["ready", "unready"]),
    checks: z.record(z.string(), z.enum(["ok", "failed"])).describe("What the gateway needs, by name"),
  })
  .meta({ id: "Readiness" });

export type Readiness = z.output<typeof readiness>;
