import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { newId } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import type { Json } from "../session/history.ts";
import { SandboxPeer } from "../testing/sandbox-peer.ts";
import { OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES } from "./command-result.ts";
import { READ_BYTES_MAX } from "./read.ts";
import { openToolbox } from "./toolbox.ts";

const toolbox = openToolbox({ commandMsDefault: 5_000, commandMsMax: 60_000 }, "/workspace");

describe("the tools", () => {
  let peer: SandboxPeer;
  let link: SandboxLink;
  beforeEach(async () => {
    peer = await SandboxPeer.open("sbx_1");
    link = peer.openLink({ sandboxId: "sbx_1", role: "brain", epoch: 1 });
  });
  afterEach(() => peer.close());

  let onOutput: () => void = () => undefined;

  async function run(tool: string, input: Json, callId = newId("call")) {
    const accepted = toolbox.get(tool)?.accept(input);
    if (accepted?.status !== "accepted") throw new Error(accepted?.message ?? `No tool ${tool}`);
    return accepted.run({ link, callId, onOutput: () => onOutput() });
  }

  const put = (name: string, content: string | Uint8Array) => writeFile(join(peer.folder, name), content);

  it("give the model a plain JSON Schema with its limits", () => {
    const { inputSchema } = toolbox.get("bash")?.description ?? {};
    expect(inputSchema).to.deep.include({ type: "object", required: ["command"], additionalProperties: false });
    expect(JSON.stringify(inputSchema)).to.contain('"maximum":60000').and.not.contain("$schema");
  });

  it("refuse input that does not fit, saying what is wrong", () => {
    const refused = toolbox.get("bash")?.accept({ command: "ls", timeoutMs: 1e9 });
    expect(refused).to.have.property("message").that.contains("60000");
  });

  describe("bash", () => {
    it("answers with the output and the exit code", async () => {
      const { outcome, text, output } = await run("bash", { command: "echo out; echo err >&2; exit 3" });
      expect(outcome).to.deep.equal({ status: "exited", exitCode: 3 });
      expect(text).to.equal("out\nerr\n[Exit code 3.]");
      expect(output).to.deep.equal({ bytes: 8, omittedBytes: 0 });
    });

    it("C84, C85: gives head, tail and the exact count of what is left out", async () => {
      const { text, output } = await run("bash", { command: "seq 1 100000" }, "cal_1");
      const bytes = 588_895;
      const omitted = bytes - OUTPUT_HEAD_BYTES - OUTPUT_TAIL_BYTES;
      expect(output).to.deep.equal({ bytes, omittedBytes: omitted });
      expect(text)
        .to.match(/^1\n2\n/)
        .and.contain(`[${omitted} bytes left out here;`);
      expect(text).to.match(/\n100000\n\[Exit code 0\.\]$/);
    });

    it("C81: replaces bytes that are no UTF-8", async () => {
      const { text } = await run("bash", { command: "printf 'a\\377b'" });
      expect(text).to.equal("a\ufffdb\n[Exit code 0.]");
    });

    it("C77: honours its time-out and says how to have more", async () => {
      const { outcome, text } = await run("bash", { command: "sleep 1000", timeoutMs: 50 });
      expect(outcome).to.deep.equal({ status: "timed-out", timeoutMs: 50 });
      expect(text).to.contain("larger timeoutMs");
    });

    it("C75: hints that standard input is closed when a command seems to have asked", async () => {
      const { text } = await run("bash", { command: "printf 'Continue? [y/N] '; read answer" });
      expect(text).to.contain("Standard input is closed");
    });

    it("C78: names a handle for a background command, whose output and end can be had later", async () => {
      const seen = new Promise<void>((resolve) => {
        onOutput = resolve;
      });
      const started = await run("bash", { command: "echo up; sleep 1000", background: true }, "cal_bg");
      expect(started.outcome).to.deep.equal({ status: "background", handle: "cal_bg" });
      expect(started.text).to.contain('"cal_bg"');
      await seen;
      expect((await run("bash_list", {})).text).to.contain("cal_bg  Running.");
      expect((await run("bash_kill", { handle: "cal_bg" })).text).to.equal("It was ended.");
      await peer.calls.get("cal_bg")?.process?.ended;
      const output = await run("bash_output", { handle: "cal_bg", from: 0 });
      expect(output.text).to.contain("up\n").and.contain("Stopped before it ended");
      expect((await run("bash_kill", { handle: "cal_bg" })).text).to.equal("Nothing of it was running.");
    });
  });

  describe("read", () => {
    it("numbers lines and takes a range", async () => {
      await put("a.txt", "one\r\ntwo\nthree\nfour");
      expect((await run("read", { path: "a.txt" })).text).to.equal("1\tone\n2\ttwo\n3\tthree\n4\tfour");
      const { text } = await run("read", { path: "/workspace/a.txt", line: 2, lines: 2 });
      expect(text).to.equal("2\ttwo\n3\tthree\n[Lines 2 to 3 of a file of 19 bytes; read on from line 4]");
      expect((await run("read", { path: "a.txt", line: 9 })).text).to.contain("no line 9");
    });

    it("stays within its limit and says where to go on", async () => {
      await put("big.txt", "0123456789abcdef\n".repeat(20_000));
      const { text } = await run("read", { path: "big.txt", lines: 2_000 });
      expect(Buffer.byteLength(text)).to.be.lessThan(READ_BYTES_MAX + 200);
      expect(text).to.match(/read on from line \d+\]$/);
    });

    it("cuts a line that is too long, also one of many megabytes", async () => {
      await put("long.txt", `${"x".repeat(5_000_000)}\nafter`);
      const { text } = await run("read", { path: "long.txt" });
      expect(text)
        .to.contain("line cut")
        .and.match(/\n2\tafter$/);
      expect(text.length).to.be.lessThan(3_000);
    });

    it("recognises a binary file and an empty one", async () => {
      await put("bin", Uint8Array.of(1, 0, 2));
      await put("empty", "");
      expect((await run("read", { path: "bin" })).text).to.contain("binary file of 3 bytes");
      expect((await run("read", { path: "empty" })).text).to.equal("The file is empty.");
    });
  });

  it("write, edit, list and search files", async () => {
    expect((await run("write", { path: "src/a.ts", content: "const a = 1;\n" })).text).to.contain("Created src/a.ts");
    const edit = { path: "src/a.ts", edits: [{ old: "1", new: "2" }] };
    expect((await run("edit", edit)).text).to.contain("1 replacement");
    expect((await run("list", { depth: 2 })).text).to.equal("src/\nsrc/a.ts  13");
    expect((await run("search", { pattern: "a = \\d" })).text).to.equal("src/a.ts:1: const a = 2;");
    expect((await run("search", { pattern: "nowhere" })).text).to.equal("No match in 1 files.");
  });
});
