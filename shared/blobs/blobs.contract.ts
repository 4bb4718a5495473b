// What every blob store promises. A behaviour that is not here is not promised.
import { expect } from "chai";
import { sha256 } from "#shared/ids/ids.ts";
import { expectFatal } from "#shared/testing/messages.ts";
import { BLOB_BYTES_MAX, type Blobs } from "./blobs.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);

export function describeBlobs(name: string, open: () => Promise<Blobs>): void {
  describe(`blobs: ${name}`, () => {
    let blobs: Blobs;
    beforeEach(async () => {
      blobs = await open();
    });

    it("names a blob after the SHA-256 of its content and gives it back", async () => {
      const content = bytesOf("hello");
      const stored = await blobs.put(content);
      expect(stored).to.deep.equal({ digest: sha256(content), bytes: 5 });
      expect(Buffer.from(await blobs.get(stored.digest)).toString()).to.equal("hello");
    });

    it("keeps an empty blob and one with every byte value", async () => {
      const all = Uint8Array.from({ length: 256 }, (_, index) => index);
      for (const content of [new Uint8Array(), all]) {
        const { digest } = await blobs.put(content);
        expect([...(await blobs.get(digest))]).to.deep.equal([...content]);
      }
    });

    it("stores the same content once, also when it is put many times at once", async () => {
      const stored = await Promise.all(Array.from({ length: 10 }, () => blobs.put(bytesOf("same"))));
      expect(new Set(stored.map(({ digest }) => digest)).size).to.equal(1);
    });

    it("refuses an unknown digest, and what is no digest", async () => {
      await expectFatal("blob_missing", () => blobs.get(sha256("never stored")));
      await expectFatal("digest_invalid", () => blobs.get("../../etc/passwd"));
    });

    it("refuses a blob over the limit", () =>
      expectFatal("blob_too_large", () => blobs.put(new Uint8Array(BLOB_BYTES_MAX + 1))));
  });
}
