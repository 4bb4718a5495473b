// What every way to a sandbox promises. `open` gives a link to a sandbox that is there, with a script in its hand.
import { expect } from "chai";
import { Refusal } from "#shared/errors/errors.ts";
import type { ScriptedSandbox } from "#shared/testing/scripted-sandbox.ts";
import { CallNotRun, type SandboxLink, SandboxLost } from "./link.ts";

export type LinkUnderTest = Readonly<{
  link: SandboxLink;
  sandbox: ScriptedSandbox;
  /** Cuts the connection; the sandbox is there again at once, as `boot`, in life `generation`. */
  cut: (again?: { boot?: string; generation?: number }) => Promise<void>;
  /** Cuts the connection for good. */
  remove: () => Promise<void>;
  close: () => Promise<void>;
}>;

const MIB = 1024 * 1024;
const excerpt = { headBytes: 1_000, tailBytes: 0 };
export const command = (callId: string) => ({
  callId,
  command: "make",
  timeoutMs: 60_000,
  background: false,
  excerpt,
});

/** Notes what comes, and lets a test wait until a number of bytes has. */
export function noteOutput() {
  const seen: Buffer[] = [];
  let waiting: Array<() => void> = [];
  const text = () => Buffer.concat(seen).toString();
  return {
    onOutput: ({ bytes }: { bytes: Uint8Array }) => {
      seen.push(Buffer.from(bytes));
      for (const wake of waiting.splice(0)) wake();
      waiting = [];
    },
    bytes: () => Buffer.concat(seen),
    text,
    until: async (wanted: string) => {
      while (!text().includes(wanted)) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}

async function readAll(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no failure",
    (error: unknown) => error,
  );

function patterned(size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  for (let n = 0; n + 4 <= size; n += 4) bytes.writeUInt32BE(n, n);
  return bytes;
}

export function describeLink(name: string, open: () => Promise<LinkUnderTest>): void {
  describe(`a sandbox link: ${name}`, () => {
    let it_: LinkUnderTest;
    beforeEach(async () => {
      it_ = await open();
      await it_.link.ready(5_000);
    });
    afterEach(() => it_.close());

    it("gives the result of a command after all of its output", async () => {
      const { link, sandbox } = it_;
      const output = noteOutput();
      const running = link.exec(command("cal_1"), output);
      await sandbox.asked("exec");
      sandbox.print("cal_1", Buffer.from([0x61, 0xff, 0x00]));
      sandbox.finish("cal_1", 2);
      expect((await running).outcome).to.deep.equal({ status: "exited", exitCode: 2 });
      expect(output.bytes()).to.deep.equal(Buffer.from([0x61, 0xff, 0x00]));
    });

    it("C84: holds a slow reader's output back in the sandbox and loses none of it", async () => {
      const { link, sandbox } = it_;
      const whole = patterned(8 * MIB);
      const seen: Uint8Array[] = [];
      const running = link.exec(command("cal_1"), {
        onOutput: async ({ bytes }) => {
          seen.push(bytes);
          await new Promise((resolve) => setImmediate(resolve));
        },
      });
      await sandbox.asked("exec");
      sandbox.print("cal_1", whole);
      sandbox.finish("cal_1");
      await running;
      expect(Buffer.concat(seen).equals(whole)).to.equal(true);
    });

    it("C25: goes on without gap or repeat when the connection is cut, with the same process", async () => {
      const { link, sandbox, cut } = it_;
      const output = noteOutput();
      const running = link.exec(command("cal_1"), output);
      await sandbox.asked("exec");
      for (const part of ["one ", "two ", "three "]) {
        sandbox.print("cal_1", Buffer.from(part));
        await output.until(part);
        await cut();
      }
      sandbox.print("cal_1", Buffer.from("four"));
      sandbox.finish("cal_1");
      expect((await running).outputBytes).to.equal(18);
      expect(output.text()).to.equal("one two three four");
      expect(sandbox.calls.get("cal_1")?.runs).to.equal(1);
    });

    it("I2: asks about a call that it sent and never sends it again", async () => {
      const { link, sandbox, cut } = it_;
      const running = link.exec(command("cal_1"));
      await sandbox.asked("exec");
      await cut();
      await sandbox.asked("attach", "cal_1");
      sandbox.finish("cal_1");
      await running;
      expect(sandbox.requests.filter(({ op }) => op === "exec")).to.have.length(1);
    });

    it("says that a call did not run when pistisd never saw it", async () => {
      const { link, sandbox, cut } = it_;
      sandbox.override = ({ op }) => op === "exec";
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      await cut();
      expect(await running).to.be.instanceOf(CallNotRun);
      expect(sandbox.barred.has("cal_1")).to.equal(true);
    });

    it("S11: says that the outcome is unknown when pistisd was restarted while the call ran", async () => {
      const { link, sandbox, cut } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      sandbox.override = ({ op }, reply) => {
        if (op === "attach") reply({ answer: { state: "lost" } });
        return op === "attach";
      };
      await cut({ boot: "boot2" });
      expect(await running)
        .to.be.instanceOf(SandboxLost)
        .and.to.include({ code: "restarted" });
      expect((await link.ready(5_000)).bootId).to.equal("boot2");
    });

    it("does not believe a replaced sandbox about a call of the old one", async () => {
      const { link, sandbox, cut } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      sandbox.calls.clear();
      await cut({ boot: "boot2", generation: 2 });
      expect(await running)
        .to.be.instanceOf(SandboxLost)
        .and.to.include({ code: "restarted" });
      expect(sandbox.requests.some(({ op }) => op === "attach")).to.equal(false);
    });

    it("S11: gives up when the sandbox stays away, and sends nothing later", async () => {
      const { link, sandbox, remove } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      await remove();
      expect(await running)
        .to.be.instanceOf(SandboxLost)
        .and.to.include({ code: "unreachable" });
      expect(await failureOf(link.exec(command("cal_2")))).to.be.instanceOf(CallNotRun);
      expect(await failureOf(link.listFiles({ path: ".", depth: 1, entriesMax: 1 }))).to.be.instanceOf(SandboxLost);
      expect(await failureOf(link.ready(10))).to.be.instanceOf(SandboxLost);
    });

    it("tells what an earlier call became, and waits for one that runs", async () => {
      const { link, sandbox } = it_;
      const asked = { callId: "cal_9", excerpt, from: 0 };
      expect(await link.attach(asked)).to.deep.equal({ state: "never-seen" });
      const first = link.exec(command("cal_1"));
      await sandbox.asked("exec");
      const output = noteOutput();
      const attached = link.attach({ ...asked, callId: "cal_1", from: 4 }, output);
      sandbox.print("cal_1", Buffer.from("0123456789"));
      sandbox.finish("cal_1");
      expect(await attached).to.deep.include({ state: "finished", result: await first });
      expect(output.text()).to.equal("456789");
    });

    it("passes on pistisd's refusal with its code", async () => {
      const { link, sandbox } = it_;
      sandbox.override = (_request, reply) => {
        reply({ failure: { code: "outside_workspace", message: "No", next: "Stay inside" } });
        return true;
      };
      const failures = [
        () => link.exec(command("cal_1"), noteOutput()),
        () => link.listFiles({ path: "..", depth: 1, entriesMax: 1 }),
        () => link.readFile("..", 0, 1).info,
        () => readAll(link.readFile("..", 0, 1).bytes),
        () => readAll(link.readOutput("cal_1", 0, 1)),
        () => link.writeFile({ callId: "cal_2", path: "..", size: 3 * MIB }, [patterned(3 * MIB)]),
        () => link.editFile({ callId: "cal_3", path: "..", edits: [{ old: "a", new: "b", all: false }] }),
      ];
      for (const failing of failures) {
        expect(await failureOf(failing()))
          .to.be.instanceOf(Refusal)
          .and.to.include({ code: "outside_workspace" });
      }
    });

    it("C88: reads and writes what is larger than a frame in pieces", async () => {
      const { link, sandbox } = it_;
      const content = patterned(5 * MIB + 3);
      const written = await link.writeFile({ callId: "cal_1", path: "big", size: content.byteLength }, [content]);
      expect(written).to.deep.equal({ size: content.byteLength, created: true });
      expect(sandbox.files.get("big")?.equals(content)).to.equal(true);
      const { info, bytes } = link.readFile("big", 7, 4 * MIB);
      expect(await info).to.deep.include({ size: content.byteLength, from: 7, length: 4 * MIB });
      expect((await readAll(bytes)).equals(content.subarray(7, 7 + 4 * MIB))).to.equal(true);
    });

    it("goes on reading at its position when the connection is cut", async () => {
      const { link, sandbox, cut } = it_;
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
      const { link, sandbox } = it_;
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
      const { link, sandbox, cut } = it_;
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
      const { link, sandbox } = it_;
      const write = (callId: string, content: Iterable<Uint8Array>) =>
        failureOf(link.writeFile({ callId, path: "f", size: 4 }, content));
      expect(await write("cal_1", [Buffer.from("abc")])).to.include({ code: "content_size_mismatch" });
      expect(await write("cal_2", [Buffer.from("abcd"), Buffer.from("e")])).to.include({
        code: "content_size_mismatch",
      });
      expect(await write("cal_3", failing())).to.deep.include({ message: "The disk of the server broke" });
      expect(sandbox.files.has("f")).to.equal(false);
    });

    it("repeats a question after a cut, but not a signal", async () => {
      const { link, sandbox, cut } = it_;
      sandbox.override = ({ op }) => op === "fileList" || op === "signal";
      const listed = link.listFiles({ path: ".", depth: 1, entriesMax: 1 });
      const signalled = failureOf(link.signal({ callId: "cal_1", signal: "SIGUSR1" }));
      await sandbox.asked("signal");
      sandbox.override = () => false;
      await cut();
      expect(await listed).to.deep.equal({ entries: [], truncated: false });
      expect(await signalled).to.be.instanceOf(SandboxLost);
      expect(sandbox.requests.filter(({ op }) => op === "signal")).to.have.length(1);
    });

    it("fails what is under way when it is closed, and everything after", async () => {
      const { link, sandbox } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      await link.close();
      expect(await running).to.be.instanceOf(SandboxLost);
      expect(await failureOf(link.exec(command("cal_2")))).to.be.instanceOf(SandboxLost);
      await link.close();
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
