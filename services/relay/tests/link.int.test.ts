import { expect } from "chai";
import { connectSandbox } from "#shared/testing/sandbox-peer.ts";
import { scriptedSandbox } from "#shared/testing/scripted-sandbox.ts";
import { joinSandbox, linksTo, onlineSandbox, type RelayUnderTest, startRelayForTest } from "./relay-under-test.ts";

const excerpt = { headBytes: 1_000, tailBytes: 0 };
const command = (callId: string) => ({ callId, command: "true", timeoutMs: 60_000, background: false, excerpt });

describe("a link over the relay", () => {
  let relay: RelayUnderTest;
  beforeEach(async () => {
    relay = await startRelayForTest();
  });
  afterEach(() => relay.close());

  async function linked() {
    const { sandboxId, pass, socket } = await onlineSandbox(relay);
    const sandbox = scriptedSandbox();
    sandbox.serve(socket, "many");
    const link = relay.resources.add("link", linksTo(relay)({ sandboxId, role: "brain", epoch: 1 }), (it) =>
      it.close(),
    );
    return { sandboxId, pass, sandbox, link, socket };
  }

  it("runs a command and streams its output", async () => {
    const { link, sandbox } = await linked();
    expect(await link.ready(5_000)).to.deep.include({ bootId: "boot1" });
    const seen: Uint8Array[] = [];
    const running = link.exec(command("cal_1"), { onOutput: ({ bytes }) => void seen.push(bytes) });
    await sandbox.asked("exec");
    sandbox.print("cal_1", Buffer.from("hello "));
    sandbox.print("cal_1", Buffer.from("world"));
    sandbox.finish("cal_1", 3);
    expect((await running).outcome).to.deep.equal({ status: "exited", exitCode: 3 });
    expect(Buffer.concat(seen).toString()).to.equal("hello world");
  });

  it("S14: goes on without gap or repeat after the relay was restarted", async () => {
    const { link, sandbox, pass } = await linked();
    const seen: Uint8Array[] = [];
    const first = Promise.withResolvers<void>();
    const running = link.exec(command("cal_1"), {
      onOutput: ({ bytes }) => {
        seen.push(bytes);
        first.resolve();
      },
    });
    await sandbox.asked("exec");
    sandbox.print("cal_1", Buffer.from("before "));
    await first.promise;
    await relay.stop();
    sandbox.print("cal_1", Buffer.from("during "));
    await relay.start();
    const again = await connectSandbox({ url: relay.wsUrl, pass, bootId: "boot1" });
    sandbox.serve(again, "many");
    await sandbox.asked("attach");
    sandbox.print("cal_1", Buffer.from("after"));
    sandbox.finish("cal_1");
    expect((await running).outputBytes).to.equal(19);
    expect(Buffer.concat(seen).toString()).to.equal("before during after");
    expect(sandbox.calls.get("cal_1")?.runs).to.equal(1);
  });

  it("waits for a sandbox that has not joined yet", async () => {
    const { sandboxId, pass } = await joinSandbox(relay);
    const link = relay.resources.add("link", linksTo(relay)({ sandboxId, role: "service" }), (it) => it.close());
    const ready = link.ready(5_000);
    const sandbox = scriptedSandbox("boot9");
    sandbox.serve(await connectSandbox({ url: relay.wsUrl, pass, bootId: "boot9" }), "many");
    expect((await ready).bootId).to.equal("boot9");
  });
});
