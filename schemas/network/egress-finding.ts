// One thing that was tried when the network of a sandbox was probed, and what came of it.
import { z } from "zod";
import { probeOutcome } from "#schemas/wire/probe.ts";

export const EGRESS_FINDINGS_MAX = 300;

export const egressFinding = z.strictObject({
  target: z.string().max(300).describe("What was tried, in words"),
  expected: z.enum(["closed", "open"]),
  outcome: z
    .enum([...probeOutcome.options, "missing"])
    .describe("As the sandbox says, or the server itself heard; missing: the sandbox did not say"),
  ok: z.boolean(),
});

export const egressFindings = z.array(egressFinding).min(1).max(EGRESS_FINDINGS_MAX);

export type EgressFinding = z.output<typeof egressFinding>;
