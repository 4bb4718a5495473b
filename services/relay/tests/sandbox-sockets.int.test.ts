import { once } from "node:events";
import { chmod, link, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { relayPaths, relaySocketName } from "#schemas/wire/relay-http.ts";
import { newId } from "#shared/ids/ids.ts";
import { connectSandbox } from "#shared/testing/sandbox-peer.ts";
import {
  asAdmin,
  joinSandbox,
  onlineSandbox,
  type RelayUnderTest,
  registerToken,
  startRelayForTest,
} from "./relay-under-test.ts";

const REST_MS = 200;

describe("the sockets of sandboxes at the relay", () => {
  let relay: RelayUnderTest;
  afterEach(() => relay.close());

  it("are there from a sandbox's first token on, again after a restart, and not once it is gone", async () => {
    relay = await startRelayForTest();
    const sandboxId = newId("sandbox");
    expect(await health(sandboxId)).to.equal("ENOENT");
    await registerToken(relay, sandboxId);
    await registerToken(relay, sandboxId);
    expect(await health(sandboxId)).to.equal(200);
    await relay.stop();
    expect(await health(sandboxId)).to.equal("ENOENT");
    await relay.start();
    expect(await health(sandboxId)).to.equal(200);
    await fetch(relay.url + relayPaths.sandbox(sandboxId), asAdmin("DELETE"));
    expect(await health(sandboxId)).to.equal("ENOENT");
  });

  it("S42: are good for the token and the pass of their own sandbox alone, and burn no other's token", async () => {
    relay = await startRelayForTest();
    const [one, other] = [await joinSandbox(relay), newId("sandbox")];
    const { token } = await registerToken(relay, other);
    expect(await ask(one.sandboxId, "POST", relayPaths.join, token)).to.equal(401);
    expect(await ask(other, "POST", relayPaths.join, token)).to.equal(200);
    const through = (sandboxId: string) => {
      const url = `ws+unix://${relay.socketOf(sandboxId)}:`;
      return connectSandbox({ url, pass: one.pass, bootId: "boot1" }).then(({ ws }) => ws.terminate(), String);
    };
    expect(await through(other)).to.contain("401");
    expect(await through(one.sandboxId)).to.equal(undefined);
  });

  it("cannot be listed, not even by the relay's own user", async () => {
    relay = await startRelayForTest();
    await registerToken(relay, newId("sandbox"));
    expect((await stat(relay.socketFolder)).mode & 0o777).to.equal(0o311);
  });

  it("rest while their sandbox connects without end; what is open stays so, and nobody else notices", async () => {
    relay = await startRelayForTest({ limits: { socketConnectionBurst: 20, socketRestMs: REST_MS } });
    const [hostile, other] = [await joinSandbox(relay), newId("sandbox")];
    await registerToken(relay, other);
    const url = `ws+unix://${relay.socketOf(hostile.sandboxId)}:`;
    const open = await connectSandbox({ url, pass: hostile.pass, bootId: "boot1" });
    const sockets: Socket[] = [];
    const one = () => opened(relay.socketOf(hostile.sandboxId)).catch(() => undefined);
    for (let socket = await one(); socket !== undefined; socket = await one()) sockets.push(socket);
    expect(sockets).to.have.length.within(15, 60);
    expect(await health(other)).to.equal(200);
    expect(open.ws.readyState).to.equal(open.ws.OPEN);
    while ((await health(hostile.sandboxId)) !== 200) await new Promise(setImmediate);
    open.ws.terminate();
    for (const socket of sockets) socket.destroy();
  });

  it("drop the oldest of too many connections that show nothing, so that their sandbox can still join", async () => {
    relay = await startRelayForTest({ limits: { socketUnprovenMax: 10 } });
    const { socket } = await onlineSandbox(relay);
    const sandboxId = newId("sandbox");
    const { token } = await registerToken(relay, sandboxId);
    const idle = await Promise.all(Array.from({ length: 40 }, () => opened(relay.socketOf(sandboxId))));
    await Promise.all(idle.slice(0, 30).map((one) => one.destroyed || once(one, "close")));
    expect(await ask(sandboxId, "POST", relayPaths.join, token)).to.equal(200);
    expect(socket.ws.readyState).to.equal(socket.ws.OPEN);
    for (const one of idle) one.destroy();
  });

  it("that a killed relay left behind are cleared away, those of one that runs are not", async () => {
    relay = await startRelayForTest();
    const sandboxId = newId("sandbox");
    await registerToken(relay, sandboxId);
    const running = await startRelayForTest({ socketFolder: relay.socketFolder }).catch((error: unknown) => error);
    expect(running).to.include({ code: "relay_cannot_listen" });
    expect(await health(sandboxId)).to.equal(200);
    // A second name of the socket stays behind when its listener goes, as the only one does after a kill.
    const leftBehind = join(relay.socketFolder, "left");
    await link(relay.socketOf(sandboxId), leftBehind);
    await relay.stop();
    await relay.start();
    await chmod(relay.socketFolder, 0o700);
    expect(await readdir(relay.socketFolder)).to.deep.equal([relaySocketName(sandboxId)]);
  });

  it("are not made in a folder with anything else in it, which is left as it is", async () => {
    relay = await startRelayForTest();
    const folder = await mkdtemp(join(tmpdir(), "pistis-relay-sockets-"));
    await mkdir(join(folder, "precious"));
    await writeFile(join(folder, "precious", "file"), "");
    const started = await startRelayForTest({ socketFolder: folder }).catch((error: unknown) => error);
    expect(started).to.include({ code: "relay_sockets_folder" });
    expect(await readdir(folder, { recursive: true })).to.deep.equal(["precious", "precious/file"]);
    await rm(folder, { recursive: true });
  });

  const health = (sandboxId: string) => ask(sandboxId, "GET", relayPaths.health, "");

  /** The status, or why nobody answers. */
  function ask(sandboxId: string, method: string, path: string, key: string): Promise<number | string> {
    return new Promise((resolve) => {
      const headers = { authorization: `Bearer ${key}`, connection: "close" };
      const sent = httpRequest({ socketPath: relay.socketOf(sandboxId), method, path, headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? ""));
      sent.end();
    });
  }

  async function opened(path: string): Promise<Socket> {
    const socket = connect(path);
    socket.on("error", () => undefined);
    await once(socket, "connect");
    return socket;
  }
});
