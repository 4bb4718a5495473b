import { once } from "node:events";
import { existsSync, readFileSync, statSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { CloseCode } from "#schemas/wire/relay-http.ts";
import { STALL_MS_MAX } from "../limits.ts";
import { execRequest, run } from "../testing/ask.ts";
import { daemonPid, openBrain, openSandbox, TestSandbox } from "../testing/sandbox.ts";
import { whenGone } from "../testing/wait.ts";

describe("the connection to the relay", () => {
  let sandbox: TestSandbox;
  afterEach(() => sandbox.close());

  it("S40: trades the join token once for a pass and keeps the pass to itself", async () => {
    sandbox = await openSandbox();
    expect(sandbox.relay.joins).to.deep.equal([sandbox.relay.options.joinToken]);
    const file = `${sandbox.state}/state.json`;
    expect(readFileSync(file, "utf8")).to.contain(sandbox.relay.options.pass);
    expect(statSync(file).mode & 0o777).to.equal(0o600);
    expect(statSync(sandbox.state).mode & 0o077).to.equal(0);
  });

  it("S41: leaves the join token in no environment, no argument and no file", async () => {
    sandbox = await openSandbox();
    const token = sandbox.relay.options.joinToken;
    for (const pid of [sandbox.daemon?.pid ?? 0, daemonPid(sandbox)]) {
      expect(readFileSync(`/proc/${pid}/environ`, "latin1")).not.to.contain(token);
      expect(readFileSync(`/proc/${pid}/cmdline`, "latin1")).not.to.contain(token);
    }
    expect(existsSync(`${sandbox.state}/join-token`)).to.equal(false);
    expect(readFileSync(`${sandbox.state}/state.json`, "utf8")).not.to.contain(token);
  });

  for (const [name, code] of Object.entries({ goingAway: 1001, protocol: CloseCode.protocol, restart: 1012 })) {
    it(`C39: comes back after close code ${code} (${name}) as the same boot, with its commands`, async () => {
      sandbox = await openSandbox();
      const before = sandbox.relay.current;
      const again = sandbox.relay.nextConnection();
      before?.socket.close(code);
      expect((await again).bootId).to.equal(before?.bootId);
      expect((await run(sandbox, await openBrain(sandbox), "echo back")).text).to.equal("back\n");
    });
  }

  it("S14: comes back after the relay was away, without a token", async () => {
    sandbox = await openSandbox();
    sandbox.relay.isDown = true;
    sandbox.relay.current?.socket.terminate();
    await sandbox.relay.nextAttempt();
    const again = sandbox.relay.nextConnection();
    sandbox.relay.isDown = false;
    await again;
    expect(sandbox.relay.joins).to.have.length(1);
  });

  for (const code of [CloseCode.refused, CloseCode.replaced]) {
    it(`ends for good when the relay closes with ${code}`, async () => {
      sandbox = await openSandbox();
      const ended = once(sandbox.daemon ?? process, "exit");
      sandbox.relay.current?.socket.close(code);
      expect((await ended)[0]).to.equal(78);
    });
  }

  it("ends for good when the relay refuses its pass", async () => {
    sandbox = await openSandbox();
    const ended = once(sandbox.daemon ?? process, "exit");
    sandbox.relay.passIsGood = false;
    sandbox.relay.current?.socket.terminate();
    expect((await ended)[0]).to.equal(78);
  });

  it("C121: ends for good when the join token is spent and there is no pass", async () => {
    sandbox = new TestSandbox({ program: "pistisd-entry", token: "spent" });
    await sandbox.relay.open();
    const [code] = await once(sandbox.start(), "exit");
    expect(code).to.equal(78);
    expect(sandbox.log).to.contain("refused the join token");
  });

  it("waits for a relay that is not there yet to join", async () => {
    sandbox = new TestSandbox({ program: "pistisd-entry" });
    await sandbox.relay.open();
    sandbox.relay.isDown = true;
    sandbox.start();
    await sandbox.relay.nextAttempt();
    const connected = sandbox.relay.nextConnection();
    sandbox.relay.isDown = false;
    await connected;
  });

  it("prefers a new join token to the pass that it kept", async () => {
    sandbox = await openSandbox();
    sandbox.relay.tokenIsSpent = false;
    await sandbox.stop();
    const connected = sandbox.relay.nextConnection();
    sandbox.start();
    await connected;
    expect(sandbox.relay.joins).to.have.length(2);
  });

  it("answers pings and sends its own", async () => {
    sandbox = await openSandbox();
    const socket = sandbox.relay.current?.socket;
    const pong = once(socket ?? process, "pong");
    const ping = once(socket ?? process, "ping");
    socket?.ping();
    await pong;
    await ping;
  });

  it("C42: finds within 15 s that a relay is dead that says nothing any more", async () => {
    sandbox = await openSandbox();
    const again = sandbox.relay.nextConnection();
    sandbox.relay.freeze();
    await again;
  });

  it("C68: runs nothing that waited in its pipe while it stood still, and knows nothing of it", async () => {
    sandbox = await openSandbox();
    const brain = await openBrain(sandbox);
    const pid = daemonPid(sandbox);
    process.kill(pid, "SIGSTOP");
    const request = execRequest(sandbox, { command: "touch late" });
    brain.ask(request).catch(() => undefined);
    await delay(STALL_MS_MAX + 100);
    const again = sandbox.relay.nextConnection();
    process.kill(pid, "SIGCONT");
    await again;
    const excerpt = { headBytes: 0, tailBytes: 0 };
    const asked = await (await openBrain(sandbox)).ask({ op: "attach", callId: request.callId, excerpt, from: 0 });
    expect(asked).to.deep.equal({ state: "never-seen" });
    expect(existsSync(sandbox.path("late"))).to.equal(false);
  });

  it("ends at TERM with everything that it runs, and says so with exit code 0", async () => {
    sandbox = await openSandbox();
    const brain = await openBrain(sandbox);
    const { text } = await run(sandbox, brain, "sleep 1000 & echo $!");
    const ended = once(sandbox.daemon ?? process, "exit");
    sandbox.daemon?.kill("SIGTERM");
    expect((await ended)[0]).to.equal(0);
    await whenGone(Number(text));
  });
});
