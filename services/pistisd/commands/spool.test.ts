import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { execResultOf } from "./excerpt.ts";
import { Spool } from "./spool.ts";

describe("a spool", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pistis-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const open = (headBytes: number, tailBytes: number) => new Spool(join(folder, "output"), { headBytes, tailBytes });
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
  const append = (spool: Spool, ...parts: string[]) => {
    for (const part of parts) spool.append(Buffer.from(part));
  };

  it("gives back what was written, by position", () => {
    const spool = open(100, 10);
    append(spool, "hello ", "world");
    expect(text(spool.read(0, 100))).to.equal("hello world");
    expect(text(spool.read(4, 3))).to.equal("o w");
    expect(text(spool.read(11, 3))).to.equal("");
    expect(text(spool.read(50, 3))).to.equal("");
    expect(spool).to.include({ totalBytes: 11, keptBytes: 11 });
    spool.close();
    expect(text(spool.read(6, 5))).to.equal("world");
  });

  it("keeps the start and the end of what outgrows it, and counts all", () => {
    const spool = open(4, 3);
    append(spool, "abc", "defg", "hijk", "l");
    expect(spool).to.include({ totalBytes: 12, keptBytes: 4 });
    expect(text(spool.read(0, 100))).to.equal("abcd");
    expect(text(spool.read(5, 100))).to.equal("");
    expect(spool.oldestTail()).to.equal(9);
    expect(text(spool.read(9, 100))).to.equal("jkl");
    expect(text(spool.read(10, 1))).to.equal("k");
  });

  it("has the right end whatever the sizes of the writes", () => {
    const letters = "abcdefghijklmnopqrstuvwxyz";
    for (let size = 1; size <= 12; size++) {
      const spool = new Spool(join(folder, `output-${size}`), { headBytes: 5, tailBytes: 7 });
      for (let at = 0; at < letters.length; at += size) append(spool, letters.slice(at, at + size));
      expect(text(spool.read(0, 5))).to.equal("abcde");
      expect(text(spool.read(spool.oldestTail(), 100))).to.equal("tuvwxyz");
      spool.close();
    }
  });

  it("loses no byte between start and end while both together hold all", () => {
    const spool = open(4, 10);
    append(spool, "abcdefgh");
    const finished = {
      ...{ outcome: { status: "exited", exitCode: 0 } as const, outputBytes: 8, durationMs: 1, leftRunning: false },
    };
    const result = execResultOf(finished, spool, { headBytes: 2, tailBytes: 5 });
    expect(Buffer.from(result.head, "base64").toString()).to.equal("ab");
    expect(Buffer.from(result.tail, "base64").toString()).to.equal("defgh");
    const whole = execResultOf(finished, spool, { headBytes: 3, tailBytes: 100 });
    expect(Buffer.from(whole.tail, "base64").toString()).to.equal("defgh");
  });

  it("goes on counting when it cannot be written", () => {
    const spool = new Spool(join(folder, "no", "such", "folder"), { headBytes: 100, tailBytes: 4 });
    append(spool, "abc", "def");
    expect(spool).to.include({ totalBytes: 6, keptBytes: 0 });
    expect(text(spool.read(spool.oldestTail(), 10))).to.equal("cdef");
  });

  it("wakes who waits for more", async () => {
    const spool = open(100, 10);
    const more = spool.changed();
    append(spool, "x");
    await more;
  });

  it("is opened again with what was kept of it, also when that was dropped", () => {
    writeFileSync(join(folder, "output"), "abc");
    const again = Spool.reopen(join(folder, "output"), 10);
    expect(again).to.include({ totalBytes: 10, keptBytes: 3 });
    expect(text(again.read(1, 10))).to.equal("bc");
    expect(Spool.reopen(join(folder, "gone"), 10)).to.include({ totalBytes: 10, keptBytes: 0 });
  });
});
