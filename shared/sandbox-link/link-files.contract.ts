// What every way to a sandbox promises about files.
import { expect } from "chai";
import { CallNotRun } from "./link.ts";
import { failureOf, type LinkUnderTest, MIB, patterned, readAll } from "./link-under-test.ts";

export function describeFiles(underTest: () => LinkUnderTest): void {
  describe("files", () => {
    it("C88: reads and writes what is larger than a frame in pieces", async () => {
      const { link, sandbox } = underTest();
      const content = patterned(5 * MIB + 3);
      const written = await link.writeFile({ callId: "cal_1", path: "big", size: content.byteLength }, [content]);
      expect(written).to.deep.equal({ size: content.byteLength, created: true });
      expect(sandbox.files.get("big")?.equals(content)).to.equal(true);
      const { info, bytes } = link.readFile("big", 7, 4 * MIB);
      expect(await info).to.deep.include({ size: content.byteLength, from: 7, length: 4 * MIB });
      expect((await readAll(bytes)).equals(content.subarray(7, 7 + 4 * MIB))).to.equal(true);
    });

    it("goes on reading at its position when the connection is cut", async () => {
      const { link, sandbox, cut } = underTest();
      const content = patterned(6 * MIB);
      sandbox.files.set("big", content);
      const parts: Uint8Array[] = [];
      let length = 0;
      for await (const bytes of link.readFile("big", 0, content.byteLength).bytes) {
        const before = Math.floor(length / (2 * MIB));
        length += bytes.byteLength;
        parts.push(bytes);
        if (Math.floor(length / (2 * MIB)) > before) await cut();
      }
      expect(Buffer.concat(parts).equals(content)).to.equal(true);
    });

    it("stops a read that its reader leaves, and reads the next", async () => {
      const { link, sandbox } = underTest();
      sandbox.files.set("big", patterned(6 * MIB));
      for (let n = 0; n < 20; n++) {
        for await (const bytes of link.readFile("big", 0, 6 * MIB).bytes) {
          expect(bytes.byteLength).to.be.above(0);
          break;
        }
      }
      expect((await readAll(link.readFile("big", 0, 10).bytes)).byteLength).to.equal(10);
    });

    it("asks about a write that was cut off: done, or not made at all", async () => {
      const { link, sandbox, cut } = underTest();
      sandbox.override = (request, reply) => {
        if (request.op !== "attach" || request.callId !== "cal_1")
          return request.op === "fileWrite" && request.callId === "cal_1";
        const outcome = { status: "exited", exitCode: 0 };
        const rest = { outputBytes: 0, keptBytes: 0, head: "", tail: "", durationMs: 1, leftRunning: false };
        reply({ answer: { state: "finished", result: { outcome, ...rest } } });
        return true;
      };
      const done = link.writeFile({ callId: "cal_1", path: "a", size: 3 }, [Buffer.from("abc")]);
      await sandbox.asked("fileWrite", "cal_1");
      await cut();
      expect(await done).to.deep.include({ size: 3 });
      const half = failureOf(link.writeFile({ callId: "cal_2", path: "b", size: 10 }, halfThen(cut)));
      expect(await half).to.be.instanceOf(CallNotRun);
      expect(sandbox.files.has("b")).to.equal(false);
    });

    it("leaves no file behind when the content fails or is not as long as announced", async () => {
      const { link, sandbox } = underTest();
      const write = (callId: string, content: Iterable<Uint8Array>) =>
        failureOf(link.writeFile({ callId, path: "f", size: 4 }, content));
      expect(await write("cal_1", [Buffer.from("abc")])).to.include({ code: "content_size_mismatch" });
      expect(await write("cal_2", [Buffer.from("abcd"), Buffer.from("e")])).to.include({
        code: "content_size_mismatch",
      });
      expect(await write("cal_3", failing())).to.deep.include({ message: "The disk of the server broke" });
      expect(sandbox.files.has("f")).to.equal(false);
    });
  });
}

async function* halfThen(cut: () => Promise<void>): AsyncGenerator<Uint8Array> {
  yield Buffer.from("01234");
  await cut();
  yield Buffer.from("56789");
}

function* failing(): Generator<Uint8Array> {
  yield Buffer.from("ab");
  throw new Error("The disk of the server broke");
}
