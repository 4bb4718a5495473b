import { expect } from "chai";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { describeLink } from "./link.contract.ts";
import { CallNotRun, SandboxLost } from "./link.ts";
import { command, excerpt, failureOf, setUp } from "./link-under-test.ts";

describeLink("directly", async () => {
  const { link, sandbox, world, cutAll, close } = await setUp({ reconnectMsMin: 5, reconnectMsMax: 5 }, 300);
  return {
    link,
    sandbox,
    close,
    cut: async ({ boot = sandbox.bootId, generation = world.generation } = {}) => {
      sandbox.bootId = boot;
      world.generation = generation;
      await cutAll();
    },
    remove: async () => {
      world.online = false;
      await cutAll();
    },
  };
});

describe("a relay link", () => {
  let under: Awaited<ReturnType<typeof setUp>>;
  beforeEach(async () => {
    under = await setUp();
  });
  afterEach(() => under.close());

  it("says hello with its role and epoch before anything else", async () => {
    const { link, sandbox } = under;
    await link.processes();
    expect(sandbox.requests).to.deep.equal([
      { op: "hello", protocol: 1, role: "brain", epoch: 7 },
      { op: "processes" },
    ]);
  });

  it("goes on under a newer epoch on the same connection, and after a reconnect", async () => {
    const { link, sandbox, dials, cutAll } = under;
    await link.ready(5_000);
    await link.raiseEpoch(8);
    expect(dials.count).to.equal(1);
    await cutAll();
    await link.processes();
    const epochs = sandbox.requests.flatMap((request) => (request.op === "hello" ? [request.epoch] : []));
    expect(epochs).to.deep.equal([7, 8, 8]);
  });

  it("sends a command only to the start of the sandbox that it was meant for", async () => {
    const { open, sandbox, cutAll } = under;
    const pinned = open({ sandboxId: "sbx_1", role: "brain", epoch: 7, bootId: sandbox.bootId });
    try {
      const running = pinned.exec(command("cal_1"));
      await sandbox.asked("exec");
      sandbox.finish("cal_1");
      expect((await running).outcome).to.deep.equal({ status: "exited", exitCode: 0 });
      const writing = { callId: "cal_3", path: "file", size: 0 };
      await cutAll();
      sandbox.bootId = "boot2";
      expect(await failureOf(pinned.exec(command("cal_2")))).to.be.instanceOf(CallNotRun);
      expect(await failureOf(pinned.writeFile(writing, []))).to.be.instanceOf(CallNotRun);
      expect(sandbox.requests.filter(({ op }) => op === "exec" || op === "fileWrite")).to.have.length(1);
      const asked = { callId: "cal_2", excerpt, from: 0 };
      expect(await pinned.attach(asked)).to.deep.equal({ state: "never-seen" });
    } finally {
      await pinned.close();
    }
  });

  it("I4: says so when the newer epoch is stale already", async () => {
    const { link, sandbox } = under;
    await link.ready(5_000);
    sandbox.override = (_request, reply) => {
      reply({ failure: { code: "epoch_stale", message: "A newer brain was here" } });
      return true;
    };
    expect(await failureOf(link.raiseEpoch(8)))
      .to.be.instanceOf(Refusal)
      .and.to.include({ code: "epoch_stale" });
  });

  for (const code of [1000, 1001, 1006, 1011, 1012, 3000, 4000]) {
    it(`C39: comes back after the socket ended with ${code}`, async () => {
      const { link, dials, cutAll } = under;
      await link.ready(5_000);
      await cutAll(code === 1006 ? undefined : code);
      await link.processes();
      expect(dials.count).to.be.at.least(2);
    });
  }

  it("does not come back by itself after 4001, and fails what waits", async () => {
    const { link, sandbox, dials, cutAll } = under;
    const running = failureOf(link.exec(command("cal_1")));
    await sandbox.asked("exec");
    await cutAll(4001);
    expect(await running)
      .to.be.instanceOf(SandboxLost)
      .and.to.include({ code: "unreachable" });
    expect(dials.count).to.equal(1);
    await link.processes();
    expect(dials.count).to.equal(2);
  });

  it("I4: a stale epoch ends the link for good", async () => {
    const { link, sandbox, cutAll } = under;
    const running = failureOf(link.exec(command("cal_1")));
    await sandbox.asked("exec");
    sandbox.override = (_request, reply) => {
      reply({ failure: { code: "epoch_stale", message: "A newer brain was here" } });
      return true;
    };
    await cutAll();
    for (const failure of [await running, await failureOf(link.processes()), await failureOf(link.ready(1_000))]) {
      expect(failure).to.be.instanceOf(Refusal).and.to.include({ code: "epoch_stale" });
    }
  });

  it("says why pistisd does not greet it, knows no end of what ran, and asks again later", async () => {
    const { link, sandbox, cutAll } = under;
    const running = failureOf(link.exec(command("cal_1")));
    await sandbox.asked("exec");
    const failure = { code: "disk_full", message: "The sandbox's disk is full", next: "Delete what is not needed" };
    sandbox.override = ({ op }, reply) => {
      if (op === "hello") reply({ failure });
      return op === "hello";
    };
    await cutAll();
    expect(await running)
      .to.be.instanceOf(SandboxLost)
      .and.to.include({ code: "unreachable" });
    expect(await failureOf(link.ready(5_000)))
      .to.be.instanceOf(Refusal)
      .and.to.include(failure);
    sandbox.override = () => false;
    expect(await link.ready(5_000)).to.include({ bootId: sandbox.bootId });
  });

  it("fails at once when the relay does not accept the key", async () => {
    under.server.server.removeAllListeners("upgrade");
    under.server.server.on("upgrade", (_request, socket) =>
      socket.end("HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
    );
    await under.cutAll();
    const failure = await failureOf(under.link.ready(5_000));
    expect(failure).to.be.instanceOf(Fatal).and.to.include({ code: "relay_key_refused" });
  });

  it("C46: waits for an answer no longer than it may take", async () => {
    await under.close();
    under = await setUp({ answerMs: 20 });
    const { link, sandbox } = under;
    sandbox.override = ({ op }) => op !== "hello";
    const short = { ...command("cal_1"), timeoutMs: 1 };
    expect(await failureOf(link.exec(short)))
      .to.be.instanceOf(SandboxLost)
      .and.to.include({ code: "unreachable" });
    expect(await failureOf(link.processes())).to.be.instanceOf(SandboxLost);
    expect(await failureOf(link.readFile("a", 0, 10).info)).to.be.instanceOf(SandboxLost);
  });

  it("C20: finds a relay that fell silent, and goes on over a new connection", async () => {
    await under.close();
    under = await setUp({ silenceMs: 50 });
    const { link, dials } = under;
    await link.ready(5_000);
    while (dials.count < 2) await new Promise((resolve) => setImmediate(resolve));
    await link.processes();
  });

  it("C88: refuses a request that does not fit into a frame, and goes on", async () => {
    const { link, sandbox } = under;
    // Each of these bytes takes six in JSON.
    const failure = await failureOf(link.exec({ ...command("cal_1"), command: "\u0001".repeat(400 * 1024) }));
    expect(failure).to.be.instanceOf(Refusal).and.to.include({ code: "too_large" });
    expect(await link.processes()).to.deep.equal({ processes: [] });
    expect(sandbox.requests.some(({ op }) => op === "exec")).to.equal(false);
  });

  it("takes no more requests than it can hold", async () => {
    await under.close();
    under = await setUp({ requestsMax: 2 });
    const { link, sandbox } = under;
    sandbox.override = ({ op }) => op !== "hello";
    const held = [failureOf(link.processes()), failureOf(link.processes())];
    expect(await failureOf(link.processes())).to.include({ code: "link_busy" });
    await link.close();
    await Promise.all(held);
  });
});
