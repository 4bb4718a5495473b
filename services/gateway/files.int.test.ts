import { once } from "node:events";
import { createServer } from "node:net";
import { expect } from "chai";
import { apiError } from "#schemas/api/error.ts";
import { FILE_BYTES_MAX, fileListing } from "#schemas/api/files.ts";
import { pathTo } from "#schemas/api/paths.ts";
import { createdSession } from "#schemas/api/session.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { writeDataFrame } from "#schemas/wire/frame.ts";
import { openRelayLinks } from "#shared/sandbox-link/relay-link.ts";
import { silentLog } from "#shared/service/log.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { startSandboxServer } from "#shared/testing/sandbox-peer.ts";
import { type ScriptedSandbox, scriptedSandbox } from "#shared/testing/scripted-sandbox.ts";
import { type Gateway, openWorld, TOKEN, type World } from "./testing/world.ts";

const adminKey = "relay-admin-key";
const sandboxId = "sbx_1";
const joined: PistisEvent = {
  type: "SandboxJoined",
  data: { sandboxId, generation: 1, bootId: "boot1", report: reportPlace(1) },
};

describe("files out of a sandbox", () => {
  let world: World;
  let gateway: Gateway;
  let sandbox: ScriptedSandbox;
  let relay: Awaited<ReturnType<typeof startSandboxServer>>;
  let sessionId: string;

  const links = (relayUrl: string) => openRelayLinks({ relayUrl, adminKey, reattachMs: 200, log: silentLog });

  beforeEach(async () => {
    world = await openWorld();
    sandbox = scriptedSandbox();
    relay = await startSandboxServer({
      adminKey,
      status: () => ({ online: true, bootId: "boot1", generation: 1 }),
      onPeer: (socket) => sandbox.serve(socket, "one"),
    });
    gateway = await world.gateway({ openLink: links(relay.url) });
    const { json } = await gateway.call("POST", pathTo("sessions", {}), { title: "t" });
    sessionId = createdSession.parse(json).session.id;
    await world.write(sessionId, "scheduler", joined);
  });

  afterEach(async () => {
    await world.close();
    await relay.close();
  });

  const get = (path: string, from = gateway) =>
    fetch(`${from.url}${path}`, { headers: { authorization: `Bearer ${TOKEN}` } });
  const getFile = (path: string, query = {}) => get(pathTo("fileContent", { sessionId }, { path, ...query }));
  const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer());
  const expectError = async (response: Response, status: number, code: string) => {
    const error = apiError.parse(await response.json());
    expect([response.status, error.code]).to.deep.equal([status, code]);
    expect(error.next).to.be.a("string");
  };

  it("downloads a file as it is, as something that no browser opens", async () => {
    const content = Buffer.from([0, 255, 254, ...Buffer.from("<script>alert(1)</script>\r\n")]);
    sandbox.files.set("out/page.html", content);
    const response = await getFile("out/page.html");
    expect((await bytesOf(response)).equals(content)).to.equal(true);
    expect(response.headers.get("content-type")).to.equal("application/octet-stream");
    expect(response.headers.get("x-content-type-options")).to.equal("nosniff");
    expect(response.headers.get("content-disposition")).to.equal("attachment; filename*=UTF-8''page.html");
    expect(response.headers.get("content-length")).to.equal(String(content.length));
  });

  it("puts nothing of a file's name into a header as it is", async () => {
    const path = 'a"\r\nset-cookie: x=1; ü\ud800.txt';
    const response = await getFile(path);
    expect(response.headers.get("set-cookie")).to.equal(null);
    expect(response.headers.get("content-disposition")).to.match(/^attachment; filename\*=UTF-8''[A-Za-z0-9%._~!-]+$/);
  });

  it("downloads a large file with the bytes in order, and a part of it", async () => {
    const content = Buffer.alloc(3_000_000, "0123456789");
    sandbox.files.set("big", content);
    expect((await bytesOf(await getFile("big"))).equals(content)).to.equal(true);
    const part = await getFile("big", { from: 1_000_003, length: 5 });
    expect((await bytesOf(part)).toString()).to.equal("34567");
    expect((await bytesOf(await getFile("big", { from: 2_999_999 }))).toString()).to.equal("9");
  });

  it("downloads an empty file", async () => {
    sandbox.files.set("empty", Buffer.alloc(0));
    const response = await getFile("empty");
    expect([response.status, (await bytesOf(response)).length]).to.deep.equal([200, 0]);
  });

  it("refuses a file over the limit unless a part is asked for", async () => {
    sandbox.override = (request, reply) => {
      if (request.op !== "fileRead") return false;
      reply({ answer: { size: FILE_BYTES_MAX + 1, from: 0, length: request.length, mode: 0o644 } });
      return true;
    };
    await expectError(await getFile("huge"), 413, "file_too_large");
  });

  it("shows as a broken download what the sandbox does not finish", async () => {
    let end: () => void = () => expect.fail("The file was not asked for");
    sandbox.override = (request, reply, { socket, channel }) => {
      if (request.op !== "fileRead") return false;
      const { stream } = request;
      reply({ answer: { size: 10, from: 0, length: 10, mode: 0o644 } });
      socket.send(writeDataFrame(channel, { stream, position: 0, bytes: Buffer.from("half!") }));
      end = () => socket.send(writeDataFrame(channel, { stream, position: 5, bytes: new Uint8Array(0) }));
      return true;
    };
    const response = await getFile("cut");
    expect(response.headers.get("content-length")).to.equal("10");
    end();
    const read = await bytesOf(response).then(
      () => "whole",
      () => "broken",
    );
    expect(read).to.equal("broken");
  });

  it("gives up a sandbox that answers and then stalls", async () => {
    const impatient = await world.gateway({ openLink: links(relay.url), limits: { transferMs: 100 } });
    sandbox.override = (request, reply) => {
      if (request.op === "fileRead") reply({ answer: { size: 10, from: 0, length: 10, mode: 0o644 } });
      return request.op === "fileRead" || request.op === "fileList";
    };
    const path = pathTo("fileContent", { sessionId }, { path: "stalls" });
    await expectError(await get(path, impatient), 503, "sandbox_unreachable");
    await expectError(await get(pathTo("files", { sessionId }), impatient), 503, "sandbox_unreachable");
  });

  for (const [wire, status, code] of [
    ["not_found", 404, "file_not_found"],
    ["not_a_file", 422, "not_a_file"],
    ["outside_workspace", 422, "outside_workspace"],
  ] as const) {
    it(`answers the sandbox's ${wire} with ${status} ${code}`, async () => {
      sandbox.override = (request, reply) => {
        if (request.op === "hello") return false;
        reply({ failure: { code: wire, message: "No" } });
        return true;
      };
      await expectError(await getFile("../etc/passwd"), status, code);
    });
  }

  it("lists a folder", async () => {
    const entries = [{ path: "a.txt", type: "file", size: 3, modifiedMs: 1 }];
    sandbox.override = (request, reply) => {
      if (request.op !== "fileList") return false;
      reply({ answer: { entries, truncated: false } });
      return true;
    };
    const response = await get(pathTo("files", { sessionId }, { path: "src", depth: 3 }));
    expect(fileListing.parse(await response.json()).entries).to.deep.equal(entries);
    expect(await sandbox.asked("fileList")).to.include({ path: "src", depth: 3 });
  });

  it("reads a range of a command's whole output", async () => {
    sandbox.calls.set("cal_1", { output: Buffer.from("0123456789"), result: undefined, changed: new Set(), runs: 1 });
    sandbox.finish("cal_1");
    const response = await get(pathTo("callOutput", { sessionId, callId: "cal_1" }, { from: 3, length: 4 }));
    expect((await bytesOf(response)).toString()).to.equal("3456");
    expect(response.headers.get("content-type")).to.equal("application/octet-stream");
  });

  it("says what to do when the sandbox is not up", async () => {
    await world.write(sessionId, "scheduler", {
      type: "SandboxStopped",
      data: { sandboxId, generation: 1, reason: "exited" },
    });
    await expectError(await getFile("a"), 409, "sandbox_not_up");
  });

  it("says so when the sandbox does not answer", async () => {
    const silent = createServer();
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const address = silent.address();
    const port = typeof address === "object" ? address?.port : 0;
    const openLink = links(`http://127.0.0.1:${port}`);
    const lonely = await world.gateway({ openLink, limits: { sandboxReadyMs: 50 } });
    await expectError(await get(pathTo("files", { sessionId }), lonely), 503, "sandbox_unreachable");
    silent.close();
  });

  it("has so many downloads on their way and no more", async () => {
    const narrow = await world.gateway({ openLink: links(relay.url), limits: { transfersMax: 1 } });
    sandbox.override = (request) => request.op === "outputRead";
    const first = get(pathTo("callOutput", { sessionId, callId: "cal_1" }), narrow);
    await sandbox.asked("outputRead");
    await expectError(await get(pathTo("files", { sessionId }), narrow), 429, "too_many_streams");
    await relay.close();
    await expectError(await first, 503, "sandbox_unreachable");
  });
});
