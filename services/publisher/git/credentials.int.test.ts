// A code host that wants a token: git's own HTTP server behind a password.
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import type { Server } from "node:http";
import { join } from "node:path";
import { expect } from "chai";
import { newSecret } from "#shared/ids/ids.ts";
import { startGitServer } from "../testing/git-server.ts";
import { commit, git, newRepository, tempFolder } from "../testing/repositories.ts";
import { openGit, updateMirror } from "./mirror.ts";
import { gitSource } from "./source.ts";

describe("credentials of code hosts", () => {
  let temp: ReturnType<typeof tempFolder>;
  let server: Server;
  let url: string;
  let host: string;
  let onRequest: () => void;
  const token = newSecret();

  beforeEach(async () => {
    temp = tempFolder();
    commit(newRepository(join(temp.path, "source")), { "a.txt": "a\n" });
    git(temp.path, "clone", "-q", "--bare", "source", "served.git");
    mkdirSync(join(temp.path, "state"));
    onRequest = () => undefined;
    ({ server, host } = await startGitServer(temp.path, token, () => onRequest()));
    url = `http://${host}/served.git`;
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
    temp.remove();
  });

  async function update(secret: string, signal = new AbortController().signal) {
    const source = gitSource(url, [{ host, username: "x-access-token", token: secret }]);
    const client = await openGit(join(temp.path, "state"));
    return updateMirror(client, { source, ref: undefined, signal, onProgress: () => undefined });
  }

  it("C110: reach git in no argument, and stand in no file of the server", async () => {
    const basic = Buffer.from(`x-access-token:${token}`).toString("base64");
    const seen: string[] = [];
    onRequest = () => seen.push(...commandLines());
    const mirror = await update(token);
    expect(mirror.target).to.include({ kind: "branch", branch: "main" });
    expect(seen.some((line) => line.includes("ls-remote"))).to.equal(true);
    expect(seen.filter((line) => line.includes(token) || line.includes(basic))).to.deep.equal([]);
    const files = readdirSync(join(temp.path, "state"), { recursive: true, encoding: "utf8" });
    const texts = files.map((file) => join(temp.path, "state", file)).filter((file) => statSync(file).isFile());
    expect(texts.filter((file) => [token, basic].some((secret) => readFileSync(file).includes(secret)))).to.deep.equal(
      [],
    );
  });

  it("that are wrong or missing fail with the next step, and are in no message", async () => {
    const wrong = newSecret();
    const error = await update(wrong).catch((thrown: unknown) => thrown);
    expect(error).to.include({ code: "auth_failed" });
    expect(error).to.have.property("next").that.includes("git.credentials");
    expect(String(error)).to.not.include(wrong);
  });

  it("are never those that stand in a URL", () => {
    const source = gitSource("https://user:secret@example.com/a/b.git", []);
    expect(JSON.stringify(source)).to.not.include("secret");
    expect(source.origin).to.equal("https://example.com/a/b.git");
  });

  it("C92: a fetch ends with its signal, git's own children too", async () => {
    const stop = new AbortController();
    server.removeAllListeners("request");
    server.on("request", () => stop.abort());
    const error = await update(token, stop.signal).catch((thrown: unknown) => thrown);
    expect(error).to.include({ code: "clone_timed_out" });
    expect(commandLines().filter((line) => line.includes(host))).to.deep.equal([]);
  });
});

function commandLines(): string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error) return "";
      throw error;
    }
  });
}
