// Frozen. Sandboxes had no network but the relay before version 2.
import { z } from "zod";

const sandboxCreateRequestedV1 = z.strictObject({
  sandboxId: z.string(),
  generation: z.number(),
  provider: z.string(),
  taskId: z.string(),
});

export function liftSandboxCreateRequestedV1(data: unknown) {
  return { ...sandboxCreateRequestedV1.parse(data), network: { mode: "none" as const } };
}
