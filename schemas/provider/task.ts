// What the scheduler asks of a provider and what comes back: work-queue messages in the EDGE account.
// Everything here is checked by the scheduler before it becomes a fact in the ledger.
import { z } from "zod";
import { EGRESS_REQUESTS_MAX, egressRequest, egressUntold } from "#schemas/network/egress-request.ts";
import { NO_NETWORK, sandboxNetwork } from "#schemas/network/sandbox-network.ts";

const sandbox = {
  taskId: z.string().regex(/^tsk_[0-9a-z]{1,64}$/),
  session: z.string().regex(/^ses_[0-9a-z]{1,64}$/),
  sandboxId: z.string().regex(/^sbx_[0-9a-z]{1,64}$/),
  generation: z.number().int().positive(),
};

export const sandboxSpec = z.strictObject({
  image: z.string().max(500).nullable().describe("null: the provider's default"),
  memoryMiB: z.number().int().positive(),
  cpuCores: z.number().positive(),
  processesMax: z.number().int().positive(),
  diskMiB: z.number().int().positive(),
  network: sandboxNetwork.default(NO_NETWORK),
});

const join = z.strictObject({ token: z.string().min(20).max(200), expiresAt: z.iso.datetime() });

export const providerTask = z.discriminatedUnion("op", [
  z.strictObject({ op: z.literal("create"), ...sandbox, spec: sandboxSpec, join }),
  z.strictObject({ op: z.literal("restart"), ...sandbox, spec: sandboxSpec, join }),
  z.strictObject({ op: z.literal("pause"), ...sandbox }),
  z.strictObject({ op: z.literal("resume"), ...sandbox }),
  z.strictObject({ op: z.literal("stop"), ...sandbox }),
  z.strictObject({ op: z.literal("inspect"), ...sandbox }),
  z.strictObject({ op: z.literal("destroy"), ...sandbox }),
]);

export const sandboxState = z.enum(["running", "paused", "stopped", "missing"]);

const seen = { sandboxId: sandbox.sandboxId, session: sandbox.session, generation: sandbox.generation };

export const report = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("created"),
    ...seen,
    taskId: sandbox.taskId,
    durationMs: z.number().int().nonnegative(),
  }),
  z.strictObject({
    kind: z.literal("restarted"),
    ...seen,
    taskId: sandbox.taskId,
    durationMs: z.number().int().nonnegative(),
  }),
  z.strictObject({ kind: z.literal("paused"), ...seen, taskId: sandbox.taskId }),
  z.strictObject({ kind: z.literal("resumed"), ...seen, taskId: sandbox.taskId }),
  z.strictObject({ kind: z.literal("stopped"), ...seen, taskId: sandbox.taskId }),
  z.strictObject({ kind: z.literal("destroyed"), ...seen, taskId: sandbox.taskId }),
  z.strictObject({
    kind: z.literal("failed"),
    ...seen,
    taskId: sandbox.taskId,
    failure: z.strictObject({
      code: z.string().max(100),
      message: z.string().max(4_000),
      next: z.string().max(2_000).optional(),
    }),
  }),
  z
    .strictObject({ kind: z.literal("state"), ...seen, state: sandboxState, reason: z.string().max(500) })
    .describe("Answers inspect, and is sent unasked when a sandbox ends and for all sandboxes when a provider starts"),
  z
    .strictObject({
      kind: z.literal("joined"),
      sandboxId: sandbox.sandboxId,
      generation: sandbox.generation,
      bootId: z.string().max(100),
    })
    .describe("From the relay: pistisd connected for the first time in this life"),
  z
    .strictObject({
      kind: z.literal("egress"),
      sandboxId: sandbox.sandboxId,
      generation: sandbox.generation,
      batch: z
        .string()
        .regex(/^evt_[0-9a-z]{1,64}$/)
        .describe("New for each report, so that one that comes again is known"),
      requests: z.array(egressRequest).max(EGRESS_REQUESTS_MAX),
      untold: egressUntold.optional(),
    })
    .describe("From the egress service: what the sandbox asked for; of `untold` there was too much to tell each"),
]);

export type ProviderTask = z.output<typeof providerTask>;
export type SandboxSpec = z.output<typeof sandboxSpec>;
export type SandboxState = z.output<typeof sandboxState>;
export type Report = z.output<typeof report>;
