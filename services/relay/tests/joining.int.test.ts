import { mkdir, readFile, rmdir, stat, writeFile } from "node:fs/promises";
import { expect } from "chai";
import { joined, relayPaths, sandboxList } from "#schemas/wire/relay-http.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { newId, sha256 } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";
import { connectSandbox } from "#shared/testing/sandbox-peer.ts";
import { startRelay } from "../relay.ts";
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

const codeOf = async (response: Response): Promise<string> => String(Object(await response.json())["code"]);
const connectError = (relay: RelayUnderTest, pass: string) =>
  connectSandbox({ url: relay.wsUrl, pass, bootId: "boot1" }).then(
    () => "connected",
    (error: unknown) => String(error),
  );

describe("joining the relay", () => {
  let relay: RelayUnderTest;
  let nowMs = Date.now();
  const logged: string[] = [];
  const note = (fields: object, text: string) => void logged.push(`${text} ${JSON.stringify(fields)}`);
  const log: Log = { debug: note, info: note, warn: note, error: note };

  beforeEach(async () => {
    nowMs = Date.now();
    logged.length = 0;
    relay = await startRelayForTest({ log, now: () => nowMs });
  });
  afterEach(() => relay.close());

  it("S40: trades a join token for a pass that connects", async () => {
    const { sandboxId, pass } = await joinSandbox(relay);
    const socket = await connectSandbox({ url: relay.wsUrl, pass, bootId: "boot1" });
    const { sandboxes } = sandboxList.parse(
      await (await fetch(relay.url + relayPaths.sandboxes, asAdmin("GET"))).json(),
    );
    expect(sandboxes).to.deep.equal([{ sandboxId, generation: 1, online: true, bootId: "boot1" }]);
    const one = async (id: string) => fetch(relay.url + relayPaths.sandbox(id), asAdmin("GET"));
    expect(await (await one(sandboxId)).json()).to.deep.equal({ generation: 1, online: true, bootId: "boot1" });
    expect((await one(newId("sandbox"))).status).to.equal(404);
    socket.ws.terminate();
  });

  it("C121: refuses and logs a join token that is replayed", async () => {
    const { token } = await joinSandbox(relay);
    const again = await trade(relay, token);
    expect(again.status).to.equal(401);
    expect(await codeOf(again)).to.equal("join_token_used");
    expect(logged.join("\n")).to.contain("join_token_used");
  });

  it("C121: refuses and logs a join token that is used late", async () => {
    const { token } = await registerToken(relay, newId("sandbox"));
    nowMs += 61_000;
    const late = await trade(relay, token);
    expect([late.status, await codeOf(late)]).to.deep.equal([401, "join_token_expired"]);
    expect(logged.join("\n")).to.contain("join_token_expired");
  });

  it("C121: a token and a pass are good for their own sandbox alone", async () => {
    const mine = await joinSandbox(relay);
    const { token, response } = await registerToken(relay, newId("sandbox"));
    expect(response.status).to.equal(204);
    // The pass of one sandbox is no token, its token is no pass, and a token cannot be moved to another sandbox.
    expect((await trade(relay, mine.pass)).status).to.equal(401);
    expect(await connectError(relay, token)).to.contain("401");
    const moved = await registerToken(relay, mine.sandboxId, { token });
    expect([moved.response.status, await codeOf(moved.response)]).to.deep.equal([409, "join_token_taken"]);
  });

  it("gives one pass when a token is traded many times at once", async () => {
    const { token } = await registerToken(relay, newId("sandbox"));
    const answers = await Promise.all(Array.from({ length: 20 }, () => trade(relay, token)));
    expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
  });

  it("refuses a token that would live over ten minutes or is over already", async () => {
    const at = (ms: number) => ({ expiresAt: new Date(nowMs + ms).toISOString() });
    const long = await registerToken(relay, newId("sandbox"), at(11 * 60_000));
    expect([long.response.status, await codeOf(long.response)]).to.deep.equal([409, "join_token_too_long"]);
    const past = await registerToken(relay, newId("sandbox"), at(-1_000));
    expect(await codeOf(past.response)).to.equal("join_token_expired");
  });

  it("takes the same registration again without giving the token a second life", async () => {
    const { sandboxId, token } = await joinSandbox(relay);
    expect((await registerToken(relay, sandboxId, { token })).response.status).to.equal(204);
    expect((await trade(relay, token)).status).to.equal(401);
  });

  it("keeps the older pass until a newer token is traded, then refuses it", async () => {
    const { sandboxId, pass, socket } = await onlineSandbox(relay);
    const { token } = await registerToken(relay, sandboxId, { generation: 2 });
    expect(socket.ws.readyState).to.equal(socket.ws.OPEN);
    const newer = joined.parse(await (await trade(relay, token)).json());
    expect((await socket.closed).code).to.equal(4002);
    expect(await connectError(relay, pass)).to.contain("401");
    expect(await connectError(relay, newer.pass)).to.equal("connected");
  });

  it("refuses a token of an older life of the sandbox", async () => {
    const sandboxId = newId("sandbox");
    const old = await registerToken(relay, sandboxId, { generation: 1 });
    await registerToken(relay, sandboxId, { generation: 2 });
    expect(await codeOf(await trade(relay, old.token))).to.equal("join_token_superseded");
    const back = await registerToken(relay, sandboxId, { generation: 1 });
    expect(await codeOf(back.response)).to.equal("join_token_superseded");
  });

  it("S14: keeps passes and used tokens over a restart", async () => {
    const { pass, token } = await joinSandbox(relay);
    const unused = await registerToken(relay, newId("sandbox"));
    await relay.stop();
    await relay.start();
    expect(await connectError(relay, pass)).to.equal("connected");
    expect((await trade(relay, token)).status).to.equal(401);
    expect((await trade(relay, unused.token)).status).to.equal(200);
  });

  it("S2: holds hashes only, in a file for its own user, and logs no secret", async () => {
    const { sandboxId, pass, token } = await joinSandbox(relay);
    const text = await readFile(relay.stateFile, "utf8");
    expect((await stat(relay.stateFile)).mode & 0o777).to.equal(0o600);
    expect(text).to.contain(sandboxId).and.to.contain(sha256(pass)).and.to.contain(sha256(token));
    await trade(relay, token);
    await fetch(relay.url + relayPaths.sandboxes, { headers: { authorization: "Bearer some-wrong-key-of-a-caller" } });
    for (const secret of [pass, token, adminKey, "some-wrong-key"]) {
      expect(text + logged.join("\n")).to.not.contain(secret);
    }
  });

  it("forgets a deleted sandbox with its tokens, pass and connection", async () => {
    const { sandboxId, pass, socket } = await onlineSandbox(relay);
    const { token } = await registerToken(relay, sandboxId);
    const remove = () => fetch(relay.url + relayPaths.sandbox(sandboxId), asAdmin("DELETE"));
    expect((await remove()).status).to.equal(204);
    expect((await socket.closed).code).to.equal(4001);
    expect(await connectError(relay, pass)).to.contain("401");
    expect((await trade(relay, token)).status).to.equal(401);
    expect((await remove()).status).to.equal(204);
  });

  it("reports the first connection of each start of pistisd once, until that is accepted", async () => {
    await relay.stop();
    let refusals = 2;
    const reports: string[] = [];
    const told = Promise.withResolvers<void>();
    const other = await startRelayForTest({
      stateFile: relay.stateFile,
      reportJoined: async ({ sandboxId, bootId, generation }) => {
        refusals -= 1;
        if (refusals >= 0) throw new Error("The scheduler is away");
        reports.push(`${sandboxId} ${generation} ${bootId}`);
        if (bootId === "boot2") told.resolve();
      },
    });
    relay.resources.add("other relay", other, (it) => it.close());
    const { sandboxId, pass, socket } = await onlineSandbox(other, "boot1");
    const noted = async () => (await readFile(relay.stateFile, "utf8")).includes('"reportedBootId":"boot1"');
    while (!(await noted())) await new Promise((resolve) => setImmediate(resolve));
    socket.ws.terminate();
    await connectSandbox({ url: other.wsUrl, pass, bootId: "boot1" });
    await connectSandbox({ url: other.wsUrl, pass, bootId: "boot2" });
    await told.promise;
    expect(reports).to.deep.equal([`${sandboxId} 1 boot1`, `${sandboxId} 1 boot2`]);
    await relay.start();
  });

  it("does not start over a state file that it cannot read, and says what to do", async () => {
    const settings = { host: "127.0.0.1", port: 0, adminKey, reportJoined: async () => undefined, log };
    await relay.stop();
    for (const content of ["{", '{"version":2,"sandboxes":[]}', '{"version":1,"sandboxes":[{"sandboxId":"x"}]}']) {
      await writeFile(relay.stateFile, content);
      const error = await startRelay({ ...settings, stateFile: relay.stateFile }).catch((thrown: unknown) => thrown);
      expect(error).to.be.instanceOf(Fatal).and.to.include({ code: "relay_state_broken" });
      expect(error).to.have.property("next").that.contains("move the file away");
    }
    await writeFile(relay.stateFile, '{"version":1,"sandboxes":[]}');
    await relay.start();
  });

  it("C123: answers that its state cannot be written, and gives no pass then", async () => {
    const { token } = await registerToken(relay, newId("sandbox"));
    await mkdir(`${relay.stateFile}.new`);
    const failed = await trade(relay, token);
    expect([failed.status, await codeOf(failed)]).to.deep.equal([503, "relay_state_unwritable"]);
    await rmdir(`${relay.stateFile}.new`);
    expect((await registerToken(relay, newId("sandbox"))).response.status).to.equal(204);
  });
});
