import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { type Disks, openDisks } from "./disks.ts";

describe("the disks of sandboxes", () => {
  let folder: string;
  let disks: Disks;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-disks-"));
    disks = openDisks(folder, join(folder, "graveyard"));
  });

  afterEach(async () => {
    await disks.close();
    await rm(folder, { recursive: true });
  });

  const workspace = (sandboxId: string) => join(folder, "sandboxes", sandboxId, "workspace");
  const begin = async (sandboxId: string, id: string) => {
    await mkdir(workspace(sandboxId), { recursive: true });
    await writeFile(join(workspace(sandboxId), "marks"), `start mark-${id} 1.000000\n`);
  };
  const ids = async () => (await disks.marks()).map(({ session, id }) => `${session} ${id}`).sort();

  it("keep the marks of one that is deleted or lost, each line once", async () => {
    await begin("sbx_1", "1-a");
    await begin("sbx_2", "2-b");
    await disks.keepMarks();
    await rm(join(folder, "sandboxes", "sbx_1"), { recursive: true });
    await disks.lose("sbx_2");
    await begin("sbx_2", "2-c");
    expect(await ids()).to.deep.equal(["ses_1 1-a", "ses_2 2-b", "ses_2 2-c"]);
    expect(await disks.lost()).to.deep.equal(["ses_2"]);
    expect(await disks.sandboxes()).to.deep.equal(["sbx_2"]);
  });
});
