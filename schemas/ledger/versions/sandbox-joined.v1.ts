// Frozen. Before version 2 nothing said which of two joins was reported last, so any later report is newer than these.
import { z } from "zod";

const sandboxJoinedV1 = z.strictObject({ sandboxId: z.string(), generation: z.number(), bootId: z.string() });

export function liftSandboxJoinedV1(data: unknown) {
  return { ...sandboxJoinedV1.parse(data), report: { sequence: 0, storedAt: "1970-01-01T00:00:00.000Z" } };
}
