import { z } from "zod";
import { type EventsOf, entriesOf } from "../entry.ts";
import { count, failure, id } from "../parts.ts";

const entry = entriesOf("publisher");
const sandbox = { sandboxId: id, generation: z.number().int().positive() };

export const publisherEvents = {
  RepositoryCopied: entry(
    "The repository is in the sandbox at /workspace/repo",
    z.strictObject({
      ...sandbox,
      commit: z
        .string()
        .regex(/^[0-9a-f]{40,64}$/)
        .nullable()
        .describe("null: the repository has no commit yet"),
      branch: z.string().max(300).nullable(),
      bundleBytes: count,
      shallow: z.boolean().describe("The source itself has no full history"),
      durationMs: count,
      note: z.string().max(1_000).optional().describe("What a person would wonder about, e.g. Git LFS pointers"),
    }),
  ),
  RepositoryCopyFailed: entry("The repository could not be copied in", z.strictObject({ ...sandbox, failure })),
};

export type PublisherEvent = EventsOf<typeof publisherEvents>;
