import { request as httpRequest } from "node:http";
import { expect } from "chai";
import { WebSocket } from "ws";
import { SUBPROTOCOL } from "#schemas/wire/frame.ts";
import { relayPaths } from "#schemas/wire/relay-http.ts";
import { newId } from "#shared/ids/ids.ts";
import { connectSandbox } from "#shared/testing/sandbox-peer.ts";
import { relayLimits } from "../limits.ts";
import {
  adminKey,
  asAdmin,
  joinSandbox,
  onlineSandbox,
  type RelayUnderTest,
  registerToken,
  startRelayForTest,
  trade,
} from "./relay-under-test.ts";

const sandboxId = newId("sandbox");
const guarded = [
  ["POST", relayPaths.joinTokens],
  ["POST", relayPaths.join],
  ["GET", relayPaths.connect],
  ["GET", relayPaths.sandboxes],
  ["GET", relayPaths.sandbox(sandboxId)],
  ["DELETE", relayPaths.sandbox(sandboxId)],
  ["GET", relayPaths.attach(sandboxId)],
  ["GET", "/"],
  ["GET", "/v1/nothing"],
  ["PUT", relayPaths.joinTokens],
] as const;

/** The status of an upgrade that is refused, or 101. */
function upgrade(
  url: string,
  path: string,
  key: string | undefined,
  protocols: string[] = [SUBPROTOCOL],
): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const ws = new WebSocket(url + path, protocols, { headers });
    ws.on("unexpected-response", (_request, response) => {
      resolve(response.statusCode ?? 0);
      ws.terminate();
    });
    ws.on("open", () => {
      resolve(101);
      ws.terminate();
    });
    ws.on("error", reject);
  });
}

function overSocket(socketPath: string, method: string, path: string, key = adminKey): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` };
    const sent = httpRequest({ socketPath, method, path, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end();
  });
}

describe("the relay's endpoints", () => {
  let relay: RelayUnderTest;
  beforeEach(async () => {
    relay = await startRelayForTest();
  });
  afterEach(() => relay.close());

  it("S2: all answer 401 without a key, with a wrong key and with a key in the URL", async () => {
    for (const [method, path] of guarded) {
      const statuses = await Promise.all([
        fetch(relay.url + path, { method }),
        fetch(relay.url + path, { method, headers: { authorization: `Bearer ${adminKey}x` } }),
        fetch(relay.url + path, { method, headers: { authorization: adminKey } }),
        fetch(`${relay.url}${path}?key=${adminKey}&authorization=Bearer%20${adminKey}`, { method }),
      ]);
      expect(
        statuses.map(({ status }) => status),
        `${method} ${path}`,
      ).to.deep.equal([401, 401, 401, 401]);
    }
  });

  it("S2: all refuse a WebSocket without a key", async () => {
    for (const path of [relayPaths.connect, relayPaths.attach(sandboxId), relayPaths.sandboxes]) {
      expect(await upgrade(relay.wsUrl, path, undefined), path).to.equal(401);
      expect(await upgrade(relay.wsUrl, path, `${adminKey}x`), path).to.equal(401);
    }
  });

  it("S42: a pass opens nothing but the sandbox's own connection", async () => {
    const { pass, sandboxId: own } = await joinSandbox(relay);
    const headers = { authorization: `Bearer ${pass}` };
    expect((await fetch(relay.url + relayPaths.sandboxes, { headers })).status).to.equal(401);
    expect((await fetch(relay.url + relayPaths.sandbox(own), { headers })).status).to.equal(401);
    expect((await fetch(relay.url + relayPaths.sandbox(own), { headers, method: "DELETE" })).status).to.equal(401);
    expect((await fetch(relay.url + relayPaths.joinTokens, { headers, method: "POST", body: "{}" })).status).to.equal(
      401,
    );
    expect(await upgrade(relay.wsUrl, relayPaths.attach(own), pass)).to.equal(401);
  });

  it("answers the health check to anyone", async () => {
    const response = await fetch(relay.url + relayPaths.health);
    expect([response.status, await response.json()]).to.deep.equal([200, { status: "ok" }]);
  });

  it("says why a request with the key does not work", async () => {
    const post = (body: string) => fetch(relay.url + relayPaths.joinTokens, { ...asAdmin("POST"), body });
    expect((await post("{")).status).to.equal(400);
    expect((await post('{"sandboxId":"x"}')).status).to.equal(400);
    expect((await post("x".repeat(5_000))).status).to.equal(413);
    expect((await fetch(`${relay.url}/v1/nothing`, asAdmin("GET"))).status).to.equal(404);
    expect(await upgrade(relay.wsUrl, relayPaths.attach(sandboxId), adminKey)).to.equal(404);
    await registerToken(relay, sandboxId);
    expect(await upgrade(relay.wsUrl, relayPaths.attach(sandboxId), adminKey, ["pistis.0"])).to.equal(400);
    expect(await upgrade(relay.wsUrl, relayPaths.attach(sandboxId), adminKey)).to.equal(101);
  });

  it("S43: on a sandbox's Unix socket only health, join and connect exist, whatever the key", async () => {
    const { token } = await registerToken(relay, sandboxId);
    const own = relay.socketOf(sandboxId);
    expect(await overSocket(own, "GET", relayPaths.health)).to.equal(200);
    for (const [method, path] of guarded) {
      if (path === relayPaths.join || path === relayPaths.connect) continue;
      expect(await overSocket(own, method, path), `${method} ${path}`).to.equal(404);
    }
    expect(await upgrade(`ws+unix://${own}:`, relayPaths.attach(sandboxId), adminKey)).to.equal(404);
    expect(await overSocket(own, "POST", relayPaths.join)).to.equal(401);
    expect(await overSocket(own, "POST", relayPaths.join, token)).to.equal(200);
    const { pass, sandboxId: second } = await joinSandbox(relay);
    const socket = await connectSandbox({ url: `ws+unix://${relay.socketOf(second)}:`, pass, bootId: "boot1" });
    socket.ws.terminate();
  });

  it("does not start with a weak key or a socket path that the kernel cannot hold", async () => {
    const start = (changes: object) => startRelayForTest(changes).catch((error: unknown) => error);
    expect(await start({ adminKey: "short" })).to.include({ code: "relay_key_weak" });
    expect(await start({ socketFolder: `/tmp/${"x".repeat(80)}` })).to.include({ code: "relay_socket_path_long" });
  });

  it("slows down who tries tokens, and lets a good one through", async () => {
    const guesses = Array.from({ length: relayLimits.badKeysPerMinuteMax + 5 }, (_, n) => trade(relay, `guess-${n}`));
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    expect(statuses).to.include(429).and.to.include(401);
    await joinSandbox(relay);
  });

  it("slows down a sandbox that connects without end", async () => {
    await relay.close();
    relay = await startRelayForTest({ limits: { connectsPerMinuteMax: 2 } });
    const { pass } = await onlineSandbox(relay);
    const again = () => connectSandbox({ url: relay.wsUrl, pass, bootId: "boot1" }).then(() => 101, String);
    expect(await again()).to.equal(101);
    expect(await again()).to.contain("429");
  });
});
