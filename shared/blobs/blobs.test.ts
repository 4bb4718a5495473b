import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { Retryable } from "#shared/errors/errors.ts";
import { expectFatal } from "#shared/testing/messages.ts";
import { describeBlobs } from "./blobs.contract.ts";
import { BLOB_BYTES_MAX, openBlobs } from "./blobs.ts";
import { memoryBlobs } from "./memory.ts";

const folders: string[] = [];

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-blobs-"));
  folders.push(folder);
  return folder;
}

after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

describeBlobs("files", async () => openBlobs(join(await temporaryFolder(), "made", "when needed")));
describeBlobs("memory", async () => memoryBlobs());

describe("blobs on disk", () => {
  const content = new TextEncoder().encode("content");

  it("refuses a file whose content was changed, and mends it when the blob is put again", async () => {
    const dir = await temporaryFolder();
    const blobs = openBlobs(dir);
    const { digest } = await blobs.put(content);
    await writeFile(fileOf(dir, digest), "tampered");
    await expectFatal("blob_corrupt", () => blobs.get(digest));
    await blobs.put(content);
    expect([...(await blobs.get(digest))]).to.deep.equal([...content]);
  });

  it("refuses a file over the limit without reading it", async () => {
    const dir = await temporaryFolder();
    const blobs = openBlobs(dir);
    const { digest } = await blobs.put(content);
    await writeFile(fileOf(dir, digest), new Uint8Array(BLOB_BYTES_MAX + 1));
    await expectFatal("blob_too_large", () => blobs.get(digest));
  });

  it("leaves nothing beside the blobs themselves", async () => {
    const dir = await temporaryFolder();
    await Promise.all(Array.from({ length: 5 }, () => openBlobs(dir).put(content)));
    expect(await readdir(join(dir, "incoming"))).to.deep.equal([]);
  });

  it("C123: says which folder does not take the blob, and that it may work later", async () => {
    const dir = join(await temporaryFolder(), "file");
    await writeFile(dir, "a file where the folder should be");
    const error = await openBlobs(dir)
      .put(content)
      .catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(Retryable).with.property("code", "blob_not_stored");
    expect(String(error)).to.contain(dir);
  });
});

function fileOf(dir: string, digest: string): string {
  return join(dir, digest.slice(0, 2), digest);
}
