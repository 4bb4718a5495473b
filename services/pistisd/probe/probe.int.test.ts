// The compiled probe, in namespaces of its own.
import { expect } from "chai";
import type { ProbeOutcome, ProbeTarget } from "#schemas/wire/probe.ts";
import { openSandbox, type TestSandbox } from "../testing/sandbox.ts";

const TARGETS: ProbeTarget[] = [
  { kind: "tcp", host: "192.0.2.1", port: 443 },
  { kind: "udp", host: "192.0.2.1", port: 443 },
  { kind: "tcp", host: "2001:db8::1", port: 443 },
  { kind: "tcp", host: "169.254.169.254", port: 80 },
  { kind: "dns", name: "canary.invalid", server: "192.0.2.53" },
  { kind: "around", ports: [22] },
  { kind: "tcp", host: "127.0.0.1", port: 4181 },
  { kind: "relay", method: "GET", path: "/v1/sandboxes", pass: "own" },
  { kind: "relay", method: "POST", path: "/v1/join-tokens", pass: "none" },
];

describe("the probe of the network", function () {
  this.timeout(20_000);
  let sandbox: TestSandbox | undefined;
  afterEach(async () => sandbox?.close());

  async function probed(targets: readonly ProbeTarget[]): Promise<Map<number, ProbeOutcome>> {
    sandbox = await openSandbox({ isolated: true });
    const channel = sandbox.relay.openChannel();
    await channel.ask({ op: "hello", protocol: 1, role: "service" });
    const { findings } = await channel.ask({ op: "probe", targets: [...targets], timeoutMs: 500 });
    return new Map(findings.map(({ target, outcome }) => [target, outcome]));
  }

  it("finds no way out where there is no interface", async () => {
    const outcomes = await probed(TARGETS);
    expect([...outcomes].sort(([one], [other]) => one - other).map(([, outcome]) => outcome)).to.deep.equal([
      ...["unreachable", "unreachable", "unreachable", "unreachable", "unreachable"],
      ...["no-interface", "refused", "denied", "denied"],
    ]);
  });

  it("leaves nothing behind, and commands run afterwards as before", async () => {
    await probed(TARGETS);
    const channel = sandbox?.relay.openChannel();
    await channel?.brain(1);
    const processes = await channel?.ask({ op: "processes" });
    expect(processes?.processes).to.deep.equal([]);
  });
});
