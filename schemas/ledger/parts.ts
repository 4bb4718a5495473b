// Shapes that several events share, each with its limit.
import { z } from "zod";

export const id = z
  .string()
  .regex(/^[a-z]{2,10}(_[0-9a-z]{1,64})?$/)
  .describe("An id such as ses_01j…: kind, then a ULID");
export const digest = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .describe("Lower-case hexadecimal SHA-256");
export const count = z.number().int().nonnegative();

export const failure = z.strictObject({
  code: z.string().max(100).describe("Stable name to branch on"),
  message: z.string().max(4_000),
  next: z.string().max(2_000).optional().describe("What the reader should do next"),
});

/** Which of two reports is the newer one: the queue may hand them out in any order. */
export const reportPlace = z
  .strictObject({
    sequence: count.describe("Its sequence in the stream of reports; starts anew when the stream is made anew"),
    storedAt: z.iso.datetime().describe("When the stream stored it, by the clock of NATS"),
  })
  .describe("The place of the report that says so, among all reports");

export const usage = z.strictObject({
  inputTokens: count.describe("Tokens read, cached ones included"),
  outputTokens: count,
  cachedInputTokens: count,
});

/** Where a session's repository comes from. A URL never holds a credential: the gateway refuses such a one. */
export const repositorySource = z.strictObject({
  url: z
    .string()
    .min(1)
    .max(2_000)
    .describe("https://, ssh:// or git URL without credentials, or a path on the server"),
  ref: z.string().min(1).max(300).optional().describe("Branch, tag or commit; the default branch when absent"),
});

export type RepositorySource = z.output<typeof repositorySource>;
export type ReportPlace = z.output<typeof reportPlace>;
export type Usage = z.output<typeof usage>;
