// A deadline that the scheduler sets for itself: a work-queue message in the CORE account, kept by the server, so
// that it outlives the scheduler.
import { z } from "zod";

export const timer = z.strictObject({
  session: z.string().regex(/^ses_[0-9a-z]{1,64}$/),
  taskId: z
    .string()
    .regex(/^tsk_[0-9a-z]{1,64}$/)
    .describe("Nothing happens when this request is no longer open"),
  dueAt: z.iso.datetime(),
});

export type Timer = z.output<typeof timer>;
