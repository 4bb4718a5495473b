// A code host that wants a token: git's own HTTP server behind a password.
import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

export type GitServer = Readonly<{ server: Server; host: string }>;

/** Serves the bare repositories below `root` on loopback to who comes as x-access-token with `token`. */
export async function startGitServer(root: string, token: string, onRequest: () => void): Promise<GitServer> {
  const server = createServer((request, response) => {
    onRequest();
    serveGit(root, token, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return { server, host: `127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}` };
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
