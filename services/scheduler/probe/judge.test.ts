import { expect } from "chai";
import { probeSettings } from "#schemas/network/probe-settings.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import type { ProbeOutcome } from "#schemas/wire/probe.ts";
import { judged } from "./judge.ts";
import { type Probing, type Trial, trialsFor } from "./targets.ts";

const settings = probeSettings.parse({ internet: ["198.51.100.7:443"], private: ["203.0.113.5:5432"] });
const ownPorts = { hosts: ["127.0.0.1", "203.0.113.1"], tcp: 40_001, udp: 40_002 };
const trials = (network: SandboxNetwork, more: Partial<Probing> = {}) =>
  trialsFor({ settings, network, isRouted: false, sandboxId: "sbx_1", ownPorts, ...more });
const names = (some: readonly Trial[]) => some.map(({ name }) => name);
const answered = (some: readonly Trial[], outcome: (trial: Trial) => ProbeOutcome) => ({
  findings: some.map((trial, target) => ({ target, at: "", outcome: outcome(trial) })),
});
const through = (some: readonly Trial[], outcome: (trial: Trial) => ProbeOutcome, heard = 0) =>
  judged(some, answered(some, outcome), heard)
    .filter(({ ok }) => !ok)
    .map(({ target }) => target);

describe("what is tried in a sandbox", () => {
  it("with no network: name, address, metadata, siblings, host, the relay's other endpoints, a proxy", () => {
    const kinds = new Set(trials({ mode: "none" }).map(({ target }) => target.kind));
    expect([...kinds].sort()).to.deep.equal(["around", "dns", "proxy-connect", "relay", "tcp", "udp"]);
    expect(names(trials({ mode: "none" }))).to.include.members([
      "outside 192.0.2.1:443 by UDP",
      "outside [2001:db8::1]:443 by TCP",
      "a name, at 192.0.2.53",
      "metadata 169.254.169.254:80",
      "private 203.0.113.5:5432",
      "the server at 203.0.113.1 by TCP",
      "gateways and neighbours",
      "the relay's /v1/sandboxes with its own pass",
      "pistis-probe.invalid:443 through the proxy",
    ]);
    expect(trials({ mode: "none" }).every(({ expected }) => expected === "closed")).to.equal(true);
  });

  it("C116: with an allow list also an allowed host under another name, as the server name and as Host", () => {
    const some = trials({ mode: "allow", allow: ["allowed.test"] });
    expect(names(some)).to.include.members([
      "pistis-probe.invalid as the TLS server name behind allowed.test",
      "pistis-probe.invalid as the Host header behind allowed.test",
    ]);
  });

  it("with the internet: that it is there, that nothing private is, and no name or outside address that must be shut", () => {
    const routed = trials({ mode: "open" }, { isRouted: true });
    expect(routed.filter(({ expected }) => expected === "open").map(({ target }) => target)).to.deep.equal([
      { kind: "tcp", host: "198.51.100.7", port: 443 },
    ]);
    expect(names(routed).join()).to.not.match(/outside|a name|proxy/);
    expect(names(routed)).to.include.members(["metadata 169.254.169.254:80", "gateways and neighbours"]);
    const proxied = trials({ mode: "open" });
    expect(names(proxied)).to.include.members(["outside 192.0.2.1:443 by TCP", "metadata 169.254.169.254:80"]);
    expect(proxied.find(({ expected }) => expected === "open")?.target.kind).to.equal("proxy-connect");
  });

  it("leaves no machine by default: documentation addresses, and link-local ones", () => {
    const { outside, metadata, nameServers, internet, private: others } = probeSettings.parse({});
    expect([...outside, ...metadata, ...nameServers]).to.deep.equal([
      "192.0.2.1:443",
      "[2001:db8::1]:443",
      "169.254.169.254:80",
      "192.0.2.53",
    ]);
    expect([...internet, ...others]).to.deep.equal([]);
  });
});

describe("what a probe means", () => {
  const none = trials({ mode: "none" });

  it("C117: passes when nothing came back", () => {
    for (const outcome of ["unreachable", "timed-out", "no-interface", "denied"] as const) {
      expect(through(none, () => outcome)).to.deep.equal([]);
    }
  });

  it("C117: a refusal is an answer, but for that of its own loopback interface", () => {
    const refused = through(none, () => "refused");
    expect(refused).to.include.members(["metadata 169.254.169.254:80", "the server at 203.0.113.1 by TCP"]);
    expect(refused).to.not.include("the server at 127.0.0.1 by TCP");
    expect(refused).to.not.include("pistis-probe.invalid:443 through the proxy");
  });

  it("C117: what could not be tried counts as got through", () => {
    expect(through(none, () => "failed")).to.have.length(none.length);
    expect(judged(none, { findings: [] }, 0).every(({ ok, outcome }) => !ok && outcome === "missing")).to.equal(true);
  });

  it("C117: what the server heard counts whatever the sandbox says", () => {
    expect(through(none, () => "unreachable", 1)).to.deep.equal(["the server's own port, as the server heard"]);
  });

  it("with the internet, the internet has to answer and nothing else may; a firewall may refuse in its own name", () => {
    const open = trials({ mode: "open" }, { isRouted: true });
    const firewalled = (trial: Trial) => (trial.expected === "open" ? "answered" : "refused");
    expect(through(open, firewalled)).to.deep.equal(names(open.filter(({ target }) => target.kind === "relay")));
    const asItShould = (trial: Trial) => (trial.expected === "open" ? "answered" : "timed-out");
    expect(through(open, asItShould)).to.deep.equal([]);
    expect(through(open, () => "timed-out")).to.deep.equal(["internet 198.51.100.7:443"]);
  });

  it("puts first what got through, keeps the rest within its limit and its text printable", () => {
    const findings = Array.from({ length: 900 }, (_, index) => ({
      target: 0,
      at: `\u001b[2Jhost ${index}`,
      outcome: index === 899 ? ("answered" as const) : ("unreachable" as const),
    }));
    const all = judged(none.slice(0, 1), { findings }, 0);
    expect(all).to.have.length(300);
    expect(all[0]).to.include({ ok: false, target: `${none[0]?.name}: ?[2Jhost 899` });
  });
});
