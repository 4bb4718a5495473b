// From a command in a local sandbox to a server outside and back: over the sandbox's proxy, the relay's pipe and the
// egress service, into the ledger. The internet is stand-ins on loopback, and a name server of the test's own.
import { once } from "node:events";
import { createServer } from "node:http";
import { dirname } from "node:path";
import { expect } from "chai";
import type { EventOf } from "#schemas/ledger/event.ts";
import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { type NameServer, startNameServer } from "#services/egress/testing/name-server.ts";
import { type StandIn, startHttp, startTlsEcho } from "#services/egress/testing/stand-ins.ts";
import { PISTISD_STATE, RELAY_FOLDER } from "#services/providers/local/guest-view.ts";
import { Resources } from "#shared/service/resources.ts";
import {
  type ConfigFile,
  type FollowedSession,
  openTestInstall,
  openTestSession,
  type TestInstall,
} from "./testing/running-install.ts";

const MIB = 1024 * 1024;
const NODE = "/opt/node/node";
const PROXY = "/dev/tcp/127.0.0.1/3128";

describe("the way out of a local sandbox", () => {
  const resources = new Resources();
  let names: NameServer;
  let web: StandIn;
  let tls: StandIn;
  let large: number;
  let install: TestInstall;
  let session: FollowedSession;
  let calls = 0;

  const config = (sandboxes: ConfigFile["sandboxes"]): ConfigFile => ({
    sandboxes: { local: { readOnly: { "/opt/node": dirname(process.execPath) } }, ...sandboxes },
    egress: { nameServers: [names.address], testAddresses: ["127.0.0.1/32"] },
  });

  before(async () => {
    names = resources.add(
      "names",
      await startNameServer({ "allowed.example": ["127.0.0.1"], "blocked.example": ["127.0.0.1"] }),
      (it) => it.close(),
    );
    web = await startHttp(resources);
    tls = await startTlsEcho(resources);
    large = await startLargeFile(resources);
    const allow = [web.port, tls.port, large].map((port) => `allowed.example:${port}`);
    install = await openTestInstall(config({ allow }));
    resources.add("install", install, (it) => it.close());
    session = resources.add("session", await openTestSession(install.server), (it) => it.close());
  });
  after(() => resources.close());

  /** What the command prints. */
  async function run(command: string, on = session): Promise<string> {
    await on.post(`$ ${command}`);
    const { text } = await on.event("ToolDone", on === session ? ++calls : 1);
    return text ?? "";
  }

  /** One line, as the scripted model takes it. */
  const node = (script: string) =>
    `echo ${Buffer.from(script).toString("base64")} | base64 -d > /tmp/s.mjs; ${NODE} /tmp/s.mjs 2>&1`;

  /** The first entry about the host, not counting what the probe of the network asked for. */
  async function logged(host: string, port: number, allowed: boolean): Promise<EventOf<"EgressLogged">["data"]> {
    for (let count = 1; ; count++) {
      const entry = await session.event("EgressLogged", count);
      if (entry.host === host && entry.port === port && entry.allowed === allowed && entry.reason !== "open")
        return entry;
    }
  }

  it("S60, C119: takes a tool that knows no proxy but by its environment, Node's fetch, to an allowed host", async () => {
    const url = `http://allowed.example:${web.port}/from-inside`;
    const text = await run(
      node(`console.log(await (await fetch("${url}", { method: "POST", body: "hello" })).text())`),
    );
    expect(text).to.contain(`POST /from-inside allowed.example:${web.port} hello`);
    const entry = await logged("allowed.example", web.port, true);
    expect(entry).to.include({ host: "allowed.example", port: web.port, allowed: true, reason: "ended" });
    expect(entry.bytesUp).to.be.greaterThan(50);
  });

  it("S60, C119: says clearly what is not allowed, and records it", async () => {
    const request = "GET http://blocked.example/ HTTP/1.1\\r\\nhost: blocked.example\\r\\n\\r\\n";
    const text = await run(`exec 3<>${PROXY}; printf '${request}' >&3; cat <&3`);
    expect(text).to.contain("403").and.to.contain("sandboxes.allow in pistis.json");
    const refused = await logged("blocked.example", 80, false);
    expect(refused).to.include({
      host: "blocked.example",
      port: 80,
      allowed: false,
      reason: "host_not_allowed",
      bytesUp: 0,
    });
  });

  it("C113: has no DNS, and no name that it asks the proxy for is looked up unless it is allowed", async () => {
    const text = await run(
      node(`import { lookup, Resolver } from "node:dns/promises";
const resolver = new Resolver({ timeout: 300, tries: 1 });
for (const ask of [() => lookup("allowed.example"), () => resolver.resolve4("secret.blocked.example")])
  console.log(await ask().then(() => "resolved", (error) => error.code));`),
    );
    expect(text).to.not.contain("resolved");
    expect(text.match(/E[A-Z]+/g)).to.have.length(2);
    expect([...new Set(names.asked)].sort()).to.deep.equal(["allowed.example A", "allowed.example AAAA"]);
  });

  it("C116: gets the same answers around the proxy: at the relay itself, with the pass that a command can read", async () => {
    const { sandboxId } = await session.event("SandboxJoined");
    const text = await run(
      node(`import { connect } from "node:net";
import { readFileSync, readdirSync } from "node:fs";
const files = readdirSync("${PISTISD_STATE}", { withFileTypes: true }).filter((file) => file.isFile());
const pass = files.map((file) => readFileSync("${PISTISD_STATE}/" + file.name, "utf8")).join().match(/"pass":\\s*"([^"]+)"/)[1];
const ask = (request) => new Promise((resolve) => {
  const socket = connect("${RELAY_FOLDER}/${relaySocketName(sandboxId)}");
  let text = "";
  socket.on("data", (bytes) => {
    text += bytes;
    if (text.includes("101 ") && !text.includes("HTTP", 10)) socket.write(request);
    if (text.includes("HTTP", 10)) { socket.destroy(); resolve(text.slice(text.indexOf("HTTP", 10)).split("\\r\\n")[0]); }
  });
  socket.write("GET /v1/egress HTTP/1.1\\r\\nhost: relay\\r\\nauthorization: Bearer " + pass + "\\r\\nconnection: upgrade\\r\\nupgrade: pistis-egress\\r\\n\\r\\n");
});
for (const to of ["blocked.example:443", "127.0.0.1:${web.port}", "169.254.169.254:80", "allowed.example:${tls.port}"])
  console.log(to, await ask("CONNECT " + to + " HTTP/1.1\\r\\nhost: " + to + "\\r\\n\\r\\n"));`),
    );
    const answers = text.split("\n").filter((line) => line.includes("HTTP/1.1"));
    expect(answers.map((line) => line.split(" ")[2])).to.deep.equal(["403", "403", "403", "200"]);
  });

  it("C116: takes no tunnel to an allowed host for another one's TLS name", async () => {
    const script = (name: string) => `import { connect } from "node:net";
import { connect as secure } from "node:tls";
const socket = connect(3128, "127.0.0.1");
socket.write("CONNECT allowed.example:${tls.port} HTTP/1.1\\r\\nhost: allowed.example\\r\\n\\r\\n");
socket.once("data", () => {
  const psk = Buffer.from("a key that both of a test's sides know");
  const tls = secure({ socket, servername: "${name}", ciphers: "PSK-AES128-GCM-SHA256", maxVersion: "TLSv1.2",
    pskCallback: () => ({ psk, identity: "test" }), checkServerIdentity: () => undefined });
  tls.on("error", () => console.log("cut off")).on("secureConnect", () => { console.log("through"); tls.destroy(); });
});`;
    expect(await run(node(script("allowed.example")))).to.contain("through");
    expect(await run(node(script("blocked.example"))))
      .to.contain("cut off")
      .and.not.contain("through");
  });

  it("passes much, both ways, whole", async () => {
    const url = `http://allowed.example:${large}/`;
    const text = await run(
      node(`const got = await (await fetch("${url}")).arrayBuffer();
const sent = await (await fetch("${url}", { method: "POST", body: new Uint8Array(${16 * MIB}) })).text();
console.log(got.byteLength, sent);`),
    );
    expect(text).to.contain(`${32 * MIB} ${16 * MIB}`);
  });

  it("C119: names no proxy in a sandbox without a network, where nothing listens", async () => {
    const closed = await openTestInstall(config({}));
    const alone = await openTestSession(closed.server);
    try {
      const text = await run(`env | grep -ci proxy; (exec 3<>${PROXY}) 2>&1 || echo refused`, alone);
      expect(text.trim().split("\n")[0]).to.equal("0");
      expect(text).to.contain("refused");
    } finally {
      await alone.close();
      await closed.close();
    }
  });
});

/** 32 MiB to whoever asks; the number of bytes to whoever sends some. */
async function startLargeFile(resources: Resources): Promise<number> {
  const server = createServer((request, response) => {
    if (request.method === "GET") {
      response.end(Buffer.alloc(32 * MIB));
      return;
    }
    let count = 0;
    request.on("data", (bytes: Buffer) => {
      count += bytes.byteLength;
    });
    request.on("end", () => response.end(String(count)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  resources.add("large file", server, (it) => it.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not reached");
  return address.port;
}
