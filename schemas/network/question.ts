// What the egress service asks the scheduler, who alone knows the ledger: what one life of one sandbox may reach.
import { z } from "zod";
import { sandboxNetwork } from "./sandbox-network.ts";

export const networkQuestion = z.strictObject({
  sandboxId: z.string().regex(/^sbx_[0-9a-z]{1,64}$/),
  generation: z.number().int().positive(),
});

/** `unknown`: nobody asked for such a sandbox, or it is gone. */
export const networkAnswer = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("known"), network: sandboxNetwork }),
  z.strictObject({ status: z.literal("unknown") }),
  z.strictObject({ status: z.literal("failed"), code: z.string().max(100) }),
]);

export type NetworkQuestion = z.output<typeof networkQuestion>;
export type NetworkAnswer = z.output<typeof networkAnswer>;
