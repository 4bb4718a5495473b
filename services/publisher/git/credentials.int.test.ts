// A code host that wants a token: git's own HTTP server behind a password.
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { join } from "node:path";
import { expect } from "chai";
import { newSecret } from "#shared/ids/ids.ts";
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
    server = createServer((request, response) => {
      onRequest();
      serveGit(temp.path, token, request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    host = `127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
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

function serveGit(root: string, token: string, request: IncomingMessage, response: ServerResponse): void {
  const expected = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  if (request.headers.authorization !== expected) {
    response.writeHead(401, { "www-authenticate": "Basic" }).end();
    return;
  }
  const { pathname, search } = new URL(request.url ?? "/", "http://host");
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: "/usr/local/bin:/usr/bin:/bin",
      ...{ GIT_PROJECT_ROOT: root, GIT_HTTP_EXPORT_ALL: "1", PATH_INFO: pathname, QUERY_STRING: search.slice(1) },
      ...{ REQUEST_METHOD: request.method, CONTENT_TYPE: request.headers["content-type"] ?? "" },
      ...{ GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""), GIT_CONFIG_NOSYSTEM: "1" },
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
    },
  });
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  backend.once("close", () => answer(response, Buffer.concat(chunks)));
}

/** What a CGI program writes: headers, an empty line, the body. */
function answer(response: ServerResponse, output: Buffer): void {
  const end = output.indexOf("\r\n\r\n");
  for (const line of output.subarray(0, end).toString("utf8").split("\r\n")) {
    const [name = "", value = ""] = line.split(": ");
    if (name === "Status") response.statusCode = Number.parseInt(value, 10);
    else response.setHeader(name, value);
  }
  response.end(output.subarray(end + 4));
}
