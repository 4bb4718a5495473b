// What is too large for a ledger message: files named after the SHA-256 of their content. A blob is on the
// disk, folder entry included, before `put` resolves, so that the event which names it is never stored first.
// A crash leaves at most a file in `incoming/` that nothing names.
import { randomUUID } from "node:crypto";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { digest as digestSchema } from "#schemas/ledger/parts.ts";
import { Fatal, Retryable } from "#shared/errors/errors.ts";
import { syncFolder } from "#shared/files/sync-folder.ts";
import { sha256 } from "#shared/ids/ids.ts";

export const BLOB_BYTES_MAX = 64 * 1024 * 1024;
const RETRY_AFTER_MS = 5_000;

export interface Blobs {
  /**
   * Stores the bytes durably; storing the same again changes nothing. Throws a Fatal `blob_too_large` above
   * BLOB_BYTES_MAX and a Retryable `blob_not_stored` when the disk does not take it.
   */
  put(bytes: Uint8Array): Promise<{ digest: string; bytes: number }>;

  /** The bytes, checked against their digest. Throws a Fatal: `digest_invalid`, `blob_missing`, `blob_corrupt`, `blob_too_large`. */
  get(digest: string): Promise<Uint8Array>;
}

/** Blobs under `dir`, which is made when it is first needed. Several processes may share it. */
export function openBlobs(dir: string): Blobs {
  return {
    put: (bytes) => put(dir, bytes),
    get: async (digest) => get(dir, checkedDigest(digest)),
  };
}

async function put(dir: string, bytes: Uint8Array): Promise<{ digest: string; bytes: number }> {
  checkSize(bytes.byteLength);
  const digest = sha256(bytes);
  try {
    if (!(await holds(dir, digest))) await write(dir, digest, bytes);
    // Also for a blob that was there: the process that wrote it may not have come as far as this.
    await syncFolder(dirname(pathOf(dir, digest)));
    await syncFolder(dir);
  } catch (cause) {
    const next = "Check the free space and the rights of the blob folder.";
    throw new Retryable("blob_not_stored", `Blob ${digest} could not be written to ${dir}`, {
      cause,
      next,
      retryAfterMs: RETRY_AFTER_MS,
    });
  }
  return { digest, bytes: bytes.byteLength };
}

async function write(dir: string, digest: string, bytes: Uint8Array): Promise<void> {
  const target = pathOf(dir, digest);
  const incoming = join(dir, "incoming");
  await mkdir(dirname(target), { recursive: true });
  await mkdir(incoming, { recursive: true });
  const side = join(incoming, `${digest}.${randomUUID()}`);
  try {
    await using file = await open(side, "wx", 0o600);
    await file.writeFile(bytes);
    await file.sync();
    await rename(side, target);
  } catch (error) {
    await rm(side, { force: true });
    throw error;
  }
}

/** A damaged file counts as absent, so that storing the blob again mends it. */
async function holds(dir: string, digest: string): Promise<boolean> {
  try {
    await get(dir, digest);
    return true;
  } catch (error) {
    if (error instanceof Fatal) return false;
    throw error;
  }
}

async function get(dir: string, digest: string): Promise<Uint8Array> {
  const bytes = await readBlob(pathOf(dir, digest), digest);
  if (sha256(bytes) !== digest) {
    const next = "Restore the file from a backup: its content is not what the ledger names.";
    throw new Fatal("blob_corrupt", `Blob ${digest} in ${dir} has other content`, { next });
  }
  return bytes;
}

async function readBlob(path: string, digest: string): Promise<Uint8Array> {
  try {
    await using file = await open(path, "r");
    checkSize((await file.stat()).size);
    return await file.readFile();
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause && cause.code === "ENOENT")) throw cause;
    const next = "Restore the file from a backup, or give this process the folder that the writer uses.";
    throw new Fatal("blob_missing", `There is no blob ${digest} at ${path}`, { cause, next });
  }
}

function checkSize(bytes: number): void {
  if (bytes <= BLOB_BYTES_MAX) return;
  throw new Fatal("blob_too_large", `A blob of ${bytes} bytes is over the limit of ${BLOB_BYTES_MAX}`, {
    next: "Write less in one event, or keep the content outside the ledger.",
  });
}

function checkedDigest(digest: string): string {
  if (digestSchema.safeParse(digest).success) return digest;
  throw new Fatal("digest_invalid", "A blob is named by 64 lower-case hexadecimal characters", {
    next: "Look at the message that names it: it was not written by Pistis.",
  });
}

function pathOf(dir: string, digest: string): string {
  return join(dir, digest.slice(0, 2), digest);
}
