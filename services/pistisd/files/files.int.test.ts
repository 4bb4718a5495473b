import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { STREAM_WINDOW_BYTES } from "#schemas/wire/frame.ts";
import type { RequestOf } from "#schemas/wire/message.ts";
import { run } from "../testing/ask.ts";
import type { PeerChannel } from "../testing/peer-channel.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";

/** One line can be given up by the engine; ten thousand take for ever. */
const EVIL_LINES = `${"a".repeat(40)}!\n`.repeat(10_000);

const failureOf = (asked: Promise<unknown>) =>
  asked.then(
    () => "answered",
    (error: unknown) => (error instanceof Error && "code" in error ? error.code : String(error)),
  );

describe("files", () => {
  let sandbox: TestSandbox;
  let brain: PeerChannel;
  before(async () => {
    sandbox = await openSandbox();
    brain = await openBrain(sandbox);
  });
  after(() => sandbox.close());

  async function write(path: string, content: Uint8Array | string, more: { mode?: number; callId?: string } = {}) {
    const bytes = Buffer.from(content);
    const { stream } = brain.stream();
    const callId = more.callId ?? sandbox.newCallId();
    const mode = more.mode === undefined ? {} : { mode: more.mode };
    const answer = brain.ask({ op: "fileWrite", callId, path, size: bytes.byteLength, stream, ...mode });
    await Promise.race([brain.upload(stream, bytes), answer.catch(() => undefined)]);
    return answer;
  }

  async function read(path: string, from = 0, length = 1e9) {
    const { stream, received } = brain.stream();
    const info = await brain.ask({ op: "fileRead", path, from, length, stream });
    await received.ended.promise;
    return { ...info, content: received.text() };
  }

  const edit = (path: string, edits: RequestOf<"fileEdit">["edits"]) =>
    brain.ask({ op: "fileEdit", callId: sandbox.newCallId(), path, edits });

  const search = (more: Partial<RequestOf<"fileSearch">> & { pattern: string }) =>
    brain.ask({ op: "fileSearch", path: ".", ignoreCase: false, matchesMax: 100, timeoutMs: 20_000, ...more });

  it("writes a file with its folders and reads any part of it", async () => {
    expect(await write("new/deep/a.txt", "hello world")).to.deep.equal({ size: 11, created: true });
    expect(await read("new/deep/a.txt", 6, 3)).to.include({
      size: 11,
      from: 6,
      length: 3,
      mode: 0o644,
      content: "wor",
    });
    expect(await read("new/deep/a.txt", 100, 3)).to.include({ length: 0, content: "" });
  });

  it("carries every byte of a large file both ways, within the window", async () => {
    const content = Buffer.alloc(5 * STREAM_WINDOW_BYTES + 17, 0);
    for (let at = 0; at < content.byteLength; at += 7) content[at] = at % 251;
    await write("big.bin", content);
    expect(readFileSync(sandbox.path("big.bin")).equals(content)).to.equal(true);
    expect(Buffer.from((await read("big.bin")).content, "latin1").equals(content)).to.equal(true);
  });

  it("replaces a file and keeps its mode, or sets the one that is named", async () => {
    writeFileSync(sandbox.path("tool.sh"), "old");
    chmodSync(sandbox.path("tool.sh"), 0o751);
    expect(await write("tool.sh", "new")).to.deep.equal({ size: 3, created: false });
    expect(statSync(sandbox.path("tool.sh")).mode & 0o777).to.equal(0o751);
    await write("tool.sh", "newer", { mode: 0o600 });
    expect(statSync(sandbox.path("tool.sh")).mode & 0o777).to.equal(0o600);
  });

  it("writes an empty file", async () => {
    expect(await write("empty", "")).to.deep.equal({ size: 0, created: true });
    expect(readFileSync(sandbox.path("empty"), "utf8")).to.equal("");
  });

  it("writes through a link inside the workspace, not over it", async () => {
    writeFileSync(sandbox.path("target"), "old");
    symlinkSync("target", sandbox.path("to-target"));
    await write("to-target", "new");
    expect(readFileSync(sandbox.path("target"), "utf8")).to.equal("new");
  });

  it("refuses paths and links that lead out, and leaves nothing outside", async () => {
    symlinkSync("/etc", sandbox.path("etc"));
    symlinkSync("../outside", sandbox.path("dangling"));
    for (const path of ["../outside", "/etc/hostname", "etc/hostname", "dangling", "etc/new"]) {
      expect(await failureOf(write(path, "x"))).to.equal("outside_workspace");
      expect(await failureOf(edit(path, [{ old: "a", new: "b", all: true }]))).to.be.oneOf([
        "outside_workspace",
        "not_found",
      ]);
    }
    for (const path of ["/etc/hostname", "etc/hostname"])
      expect(await failureOf(read(path))).to.equal("outside_workspace");
    for (const path of ["etc", "/", ".."]) {
      expect(await failureOf(brain.ask({ op: "fileList", path, depth: 1, entriesMax: 1 }))).to.equal(
        "outside_workspace",
      );
      expect(await failureOf(search({ path, pattern: "x" }))).to.equal("outside_workspace");
    }
    expect(await failureOf(run(sandbox, brain, { command: "true", cwd: "etc" }))).to.equal("outside_workspace");
    expect(readdirSync(sandbox.folder).sort()).to.deep.equal(["run", "state", "workspace"]);
  });

  it("refuses pipes and devices without hanging on them", async () => {
    execFileSync("mkfifo", [sandbox.path("pipe")]);
    expect(await failureOf(read("pipe"))).to.equal("not_a_file");
    expect(await failureOf(write("pipe", "x"))).to.equal("not_a_file");
    expect(await failureOf(read("."))).to.equal("not_a_file");
    expect(await failureOf(read("nothing"))).to.equal("not_found");
  });

  it("I2: writes once per call id", async () => {
    const callId = sandbox.newCallId();
    await write("once", "first", { callId });
    expect(await failureOf(write("once", "second", { callId }))).to.equal("call_seen");
    expect(readFileSync(sandbox.path("once"), "utf8")).to.equal("first");
    const attached = await brain.ask({ op: "attach", callId, excerpt: { headBytes: 0, tailBytes: 0 }, from: 0 });
    expect(attached).to.have.nested.property("result.outcome.exitCode", 0);
  });

  it("leaves the old file when the stream is short, long, has a gap or breaks off", async () => {
    writeFileSync(sandbox.path("kept"), "old");
    const begin = (channel: PeerChannel) => {
      const { stream } = channel.stream();
      const asked = channel.ask({ op: "fileWrite", callId: sandbox.newCallId(), path: "kept", size: 3, stream });
      return { stream, ended: failureOf(asked) };
    };
    const short = begin(brain);
    brain.sendData(short.stream, 0, Buffer.from("ab"));
    brain.sendData(short.stream, 2, Buffer.from(""));
    const long = begin(brain);
    brain.sendData(long.stream, 0, Buffer.from("abcd"));
    const gap = begin(brain);
    brain.sendData(gap.stream, 1, Buffer.from("abc"));
    for (const { ended } of [short, long, gap]) expect(await ended).to.equal("bad_request");
    const gone = await openBrain(sandbox);
    const { stream } = begin(gone);
    gone.sendData(stream, 0, Buffer.from("a"));
    sandbox.relay.closeChannel(gone);
    await run(sandbox, brain, "true");
    expect(readFileSync(sandbox.path("kept"), "utf8")).to.equal("old");
    expect(readdirSync(sandbox.workspace).filter((name) => name.startsWith(".pistis"))).to.deep.equal([]);
  });

  it("C123: answers that a file is written also when the disk is too full to keep that it was", async () => {
    const callId = sandbox.newCallId();
    const record = join(sandbox.state, "calls", callId);
    const { stream } = brain.stream();
    const asked = brain.ask({ op: "fileWrite", callId, path: "kept.txt", size: 4, stream });
    while (!existsSync(record)) await new Promise(setImmediate);
    rmSync(record);
    symlinkSync("/dev/full", record);
    await brain.upload(stream, Buffer.from("kept"));
    expect(await asked).to.deep.equal({ size: 4, created: true });
    expect(readFileSync(sandbox.path("kept.txt"), "utf8")).to.equal("kept");
  });

  it("C123: says that the disk is full, and goes on", async () => {
    const full = await openSandbox({ isolated: true, workspaceBytes: 1_000_000 });
    try {
      const peer = await openBrain(full);
      const { stream } = peer.stream();
      const content = Buffer.alloc(3_000_000, "x");
      const asked = peer.ask({ op: "fileWrite", callId: "cal_full", path: "big", size: content.byteLength, stream });
      void peer.upload(stream, content);
      expect(await failureOf(asked)).to.equal("disk_full");
      expect((await run(full, peer, "ls -A; echo fine")).text).to.equal("fine\n");
    } finally {
      await full.close();
    }
  });

  it("edits a file in place and keeps its mode and line ends", async () => {
    writeFileSync(sandbox.path("dos.txt"), "\ufeffone\r\ntwo\r\n");
    chmodSync(sandbox.path("dos.txt"), 0o640);
    const done = await edit("dos.txt", [{ old: "one\ntwo", new: "1\n2\n3", all: false }]);
    expect(done).to.deep.equal({ replacements: 1, size: 12 });
    expect(readFileSync(sandbox.path("dos.txt"), "utf8")).to.equal("\ufeff1\r\n2\r\n3\r\n");
    expect(statSync(sandbox.path("dos.txt")).mode & 0o777).to.equal(0o640);
    expect(await failureOf(edit("dos.txt", [{ old: "nine", new: "", all: false }]))).to.equal("edit_no_match");
  });

  it("lists level by level, names links without following them, and says when it cut", async () => {
    mkdirSync(sandbox.path("tree/a/b/c"), { recursive: true });
    mkdirSync(sandbox.path("tree/.git/objects"), { recursive: true });
    writeFileSync(sandbox.path("tree/a/file"), "12345");
    symlinkSync("/etc", sandbox.path("tree/link"));
    const list = (depth: number, entriesMax = 100) => brain.ask({ op: "fileList", path: "tree", depth, entriesMax });
    const shown = async (depth: number) => (await list(depth)).entries.map(({ path, type }) => `${type} ${path}`);
    expect(await shown(1)).to.deep.equal(["directory .git", "directory a", "symlink link"]);
    expect((await shown(3)).slice(3)).to.deep.equal(["directory a/b", "file a/file", "directory a/b/c"]);
    expect(await list(3, 2)).to.have.property("truncated", true);
    expect((await list(2)).entries.find(({ path }) => path === "a/file")).to.include({ size: 5 });
  });

  it("lists a folder of thousands of files", async () => {
    await run(sandbox, brain, "mkdir many && cd many && seq -f 'file-%05g' 1 12000 | xargs touch");
    const { entries, truncated } = await brain.ask({ op: "fileList", path: "many", depth: 1, entriesMax: 10_000 });
    expect(truncated).to.equal(true);
    expect(entries.length).to.be.greaterThan(5_000);
    expect(entries[0]?.path).to.equal("file-00001");
  });

  it("cuts a list of names that are longer as JSON than on disk to what a frame holds", async () => {
    mkdirSync(sandbox.path("control"));
    for (let index = 0; index < 1_000; index++) {
      writeFileSync(sandbox.path("control", `${"\x01".repeat(250)}${index}`), "");
    }
    const asked = { op: "fileList", path: "control", depth: 1, entriesMax: 1_000 } as const;
    const listed = await brain.askUnlessLost(asked);
    expect(listed).to.include({ truncated: true });
    expect(listed?.entries.length).to.be.greaterThan(400);
  });

  it("searches text files by pattern and glob, not in .git, binaries or through links", async () => {
    mkdirSync(sandbox.path("code/.git"), { recursive: true });
    mkdirSync(sandbox.path("code/src"));
    writeFileSync(sandbox.path("code/src/a.ts"), "const x = 1;\r\nconst Needle = 2;\r\n");
    writeFileSync(sandbox.path("code/src/b.js"), "needle();\n");
    writeFileSync(sandbox.path("code/.git/config"), "needle\n");
    writeFileSync(sandbox.path("code/binary"), Buffer.from("needle\0"));
    symlinkSync("/etc", sandbox.path("code/etc"));
    const found = async (more: Partial<RequestOf<"fileSearch">>) =>
      (await search({ path: "code", pattern: "needle", ...more })).matches.map(({ path, line }) => `${path}:${line}`);
    expect(await found({})).to.deep.equal(["code/src/b.js:1"]);
    expect(await found({ ignoreCase: true })).to.deep.equal(["code/src/a.ts:2", "code/src/b.js:1"]);
    expect(await found({ ignoreCase: true, glob: "*.ts" })).to.deep.equal(["code/src/a.ts:2"]);
    expect(await found({ path: "code/src/b.js" })).to.deep.equal(["code/src/b.js:1"]);
    expect((await search({ path: "code", pattern: "= \\d;$" })).matches[1]).to.include({ text: "const Needle = 2;" });
    expect(await search({ path: "code", pattern: "needle|const", matchesMax: 1 })).to.include({ truncated: true });
  });

  it("refuses a pattern that is none", async () => {
    expect(await failureOf(search({ pattern: "(" }))).to.equal("bad_pattern");
  });

  it("ends a search whose pattern runs for ever, and answers others meanwhile", async () => {
    writeFileSync(sandbox.path("evil.txt"), EVIL_LINES);
    const endless = failureOf(search({ path: "evil.txt", pattern: "^(a+)+$", timeoutMs: 600 }));
    expect((await run(sandbox, brain, "echo meanwhile")).text).to.equal("meanwhile\n");
    expect(await endless).to.equal("timed_out");
  });

  it("withdraws a search that is cancelled", async () => {
    writeFileSync(sandbox.path("evil.txt"), EVIL_LINES);
    const endless = failureOf(search({ path: "evil.txt", pattern: "^(a+)+$", timeoutMs: 60_000 }));
    brain.sendMessage({ cancel: brain.lastId });
    expect(await endless).to.equal("cancelled");
    expect(existsSync(sandbox.path("evil.txt"))).to.equal(true);
  });
});
