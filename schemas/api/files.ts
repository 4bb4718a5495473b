// Files and command output that come out of a sandbox. All of it is untrusted: limited in size, never
// rendered or run by the server, and downloads are octet streams.
import { z } from "zod";
import { fileEntry, PATH_BYTES_MAX } from "../wire/message.ts";

export const FILE_BYTES_MAX = 64 * 1024 * 1024;
export const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;

const position = z.coerce.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const path = z.string().min(1).max(PATH_BYTES_MAX);

export const filesQuery = z.strictObject({
  path: path.default(".").describe("Folder, absolute or relative to /workspace"),
  depth: z.coerce.number().int().min(1).max(20).default(1),
});

export const fileListing = z
  .strictObject({ entries: z.array(fileEntry), truncated: z.boolean().describe("true: there are more entries") })
  .meta({ id: "FileListing" });

export const fileContentQuery = z.strictObject({
  path: path.describe("File, absolute or relative to /workspace"),
  from: position.default(0),
  length: position.max(FILE_BYTES_MAX).optional().describe("To the end of the file when absent"),
});

export const callId = z.string().regex(/^cal_[0-9a-z]{1,64}$/);

export const callOutputQuery = z.strictObject({
  from: position.default(0),
  length: position
    .min(1)
    .max(OUTPUT_BYTES_MAX)
    .default(1024 * 1024),
});

export type FileListing = z.output<typeof fileListing>;
