// A sandbox whose network has to be probed before a command runs in it: a work-queue message in the CORE account, so
// that it outlives the scheduler and no sandbox's silence holds up the ledger's order.
import { z } from "zod";

export const probeTask = z.strictObject({
  session: z.string().regex(/^ses_[0-9a-z]{1,64}$/),
  generation: z.number().int().positive().describe("Nothing happens when it is not the sandbox's any more"),
});

export type ProbeTask = z.output<typeof probeTask>;
