import { digest as digestSchema } from "#schemas/ledger/parts.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { BLOB_BYTES_MAX, type Blobs } from "./blobs.ts";

/** Blobs that live as long as the process: for tests of what is built on them. Satisfies blobs.contract.ts. */
export function memoryBlobs(): Blobs {
  const stored = new Map<string, Uint8Array>();
  return {
    async put(bytes) {
      if (bytes.byteLength > BLOB_BYTES_MAX) throw new Fatal("blob_too_large", "The blob is over the limit");
      const digest = sha256(bytes);
      stored.set(digest, Uint8Array.from(bytes));
      return { digest, bytes: bytes.byteLength };
    },
    async get(digest) {
      if (!digestSchema.safeParse(digest).success) throw new Fatal("digest_invalid", "This is no digest");
      const bytes = stored.get(digest);
      if (bytes === undefined) throw new Fatal("blob_missing", `There is no blob ${digest}`);
      return Uint8Array.from(bytes);
    },
  };
}
