import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { folderAt, whatBecameOf } from "./director.ts";

describe("a sandbox that was armed by a file", () => {
  it("has fired when the file alone is gone, not when its folder is, or is another one", async () => {
    const top = await mkdtemp(join(tmpdir(), "pistis-director-"));
    try {
      const folder = join(top, "pistisd");
      const path = join(folder, "fault-step");
      await mkdir(folder);
      await writeFile(path, "pistisd.call.barring");
      const first = await folderAt(folder);
      if (first === undefined) throw new Error("The folder is not there");
      expect(await whatBecameOf(path, first)).to.equal("waits");
      await rm(path);
      expect(await whatBecameOf(path, first)).to.equal("fired");
      await rename(folder, join(top, "lost"));
      expect(await whatBecameOf(path, first)).to.equal("gone");
      await mkdir(folder);
      expect(await whatBecameOf(path, first)).to.equal("gone");
    } finally {
      await rm(top, { recursive: true });
    }
  });
});
