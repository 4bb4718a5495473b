import { joined } from "#schemas/wire/relay-http.ts";
import { describeLink } from "#shared/sandbox-link/link.contract.ts";
import type { LinkUnderTest } from "#shared/sandbox-link/link-under-test.ts";
import { connectSandbox } from "#shared/testing/sandbox-peer.ts";
import { scriptedSandbox } from "#shared/testing/scripted-sandbox.ts";
import { linksTo, onlineSandbox, registerToken, startRelayForTest, trade } from "./relay-under-test.ts";

async function open(isWithin: boolean): Promise<LinkUnderTest> {
  const relay = await startRelayForTest();
  const member = await onlineSandbox(relay);
  const sandbox = scriptedSandbox();
  let { socket, pass } = member;
  let life = 1;
  sandbox.serve(socket, "many");
  const remove = async () => {
    socket.ws.terminate();
    await socket.closed;
  };
  const connect = async () => {
    socket = await connectSandbox({ url: relay.wsUrl, pass, bootId: sandbox.bootId });
    sandbox.serve(socket, "many");
  };
  const link = linksTo(relay, { reattachMs: 300, ...(isWithin ? { connect: relay.connect } : {}) })({
    sandboxId: member.sandboxId,
    role: "brain",
    epoch: 1,
  });
  relay.resources.add("link", link, (opened) => opened.close());
  return {
    link,
    sandbox,
    remove,
    cut: async ({ boot = sandbox.bootId, generation = life } = {}) => {
      await remove();
      sandbox.bootId = boot;
      if (generation > life) {
        const { token } = await registerToken(relay, member.sandboxId, { generation });
        pass = joined.parse(await (await trade(relay, token)).json()).pass;
        life = generation;
      }
      await connect();
      await link.ready(5_000);
    },
    close: () => relay.close(),
  };
}

describeLink("over the relay", () => open(false));
describeLink("over a relay in the same process", () => open(true));
