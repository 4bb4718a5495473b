import { expect } from "chai";
import { applyText, missingOf, parseTable, removeText } from "./filter-table.ts";
import { firewallCommands, firewallOf } from "./rules.ts";

const settings = { key: "0123456789ab", pool: "10.208.0.0/12", except: ["10.1.2.3/32"] };
const firewall = firewallOf(settings);
const out = firewall.chains.find(({ name }) => name.endsWith("-OUT"))?.rules ?? [];

/** A host on which Docker has started. */
const dockerHost = `-P INPUT ACCEPT
-P FORWARD DROP
-P OUTPUT ACCEPT
-N DOCKER-USER
-A FORWARD -j DOCKER-USER
-A DOCKER-USER -j RETURN
`;

const holding = `-P INPUT ACCEPT
-P FORWARD DROP
-N DOCKER-USER
${firewall.chains.map(({ name, rules }) => [`-N ${name}`, ...rules.map((rule) => `-A ${name} ${rule}`)].join("\n")).join("\n")}
-A FORWARD -j DOCKER-USER
${firewall.jumps.map(({ hook, rule }) => `-A ${hook} ${rule}`).join("\n")}
-A DOCKER-USER -j RETURN
-A INPUT -p tcp -j ACCEPT
`;

describe("the firewall of sandboxes with internet", () => {
  it("closes other sandboxes before anything is let through, and what is let through before what is closed", () => {
    expect(out[0]).to.match(/^-d 10\.208\.0\.0\/12 -j PISTIS-0123456789ab-NO$/);
    expect(out[1]).to.equal("-d 10.1.2.3/32 -j RETURN");
    expect(out.slice(2).every((rule) => / -j PISTIS-0123456789ab-NO$/.test(rule))).to.equal(true);
  });

  for (const range of [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "224.0.0.0/4",
  ]) {
    it(`closes ${range}`, () => {
      expect(out).to.include(`-d ${range} -j PISTIS-0123456789ab-NO`);
    });
  }

  it("has chain names that the kernel takes", () => {
    for (const { name } of firewall.chains) expect(name.length).to.be.at.most(28);
  });

  it("holds where all its chains are and its jumps come first", () => {
    expect(missingOf(parseTable(holding), firewall)).to.deep.equal([]);
  });

  it("holds beside another install's, in either order", () => {
    const other = "-A DOCKER-USER -s 10.208.0.0/12 -j PISTIS-ffffffffffff-OUT\n";
    const before = holding.replace("-A DOCKER-USER", `${other}-A DOCKER-USER`);
    expect(missingOf(parseTable(before), firewall)).to.deep.equal([]);
  });

  const broken: Readonly<Record<string, [string, string]>> = {
    "a chain that is gone": [holding.replaceAll(/^-[NA] PISTIS-\S+-NO\b.*\n/gm, ""), "NO is missing"],
    "a chain with a rule less": [holding.replace(/^-A \S+OUT -d 172.*\n/m, ""), "OUT has other rules"],
    "a chain with a rule more": [`${holding}-A PISTIS-0123456789ab-OUT -j RETURN\n`, "OUT has other rules"],
    "a jump that is gone": [holding.replace(/^-A INPUT -s.*\n/m, ""), "INPUT does not begin"],
    "a rule before the jumps": [
      holding.replace("-A DOCKER-USER", "-A DOCKER-USER -j ACCEPT\n-A DOCKER-USER"),
      "DOCKER-USER does not begin",
    ],
    "a chain that nothing goes through": [holding.replace("-A FORWARD -j DOCKER-USER\n", ""), "FORWARD does not"],
    "a host without any of it": [dockerHost, "OUT is missing"],
  };
  for (const [what, [table, said]] of Object.entries(broken)) {
    it(`notices ${what}`, () => expect(missingOf(parseTable(table), firewall).join("; ")).to.contain(said));
  }

  it("is put in place in one transaction, which takes away what an earlier one left", () => {
    const text = applyText(parseTable(holding), firewall, settings.key);
    expect(text.match(/^\*filter$/gm)).to.have.length(1);
    expect(text.match(/^COMMIT$/gm)).to.have.length(1);
    expect(text.match(/^-D DOCKER-USER /gm)).to.have.length(2);
    expect(text.match(/^-I DOCKER-USER 1 /gm)).to.have.length(2);
    expect(text).to.not.contain("-I FORWARD");
  });

  it("makes Docker's chain where Docker has not started yet", () => {
    const text = applyText(parseTable("-P INPUT ACCEPT\n-P FORWARD ACCEPT\n"), firewall, settings.key);
    expect(text).to.contain(":DOCKER-USER - [0:0]\n").and.contain("-A DOCKER-USER -j RETURN\n");
    expect(text).to.contain("-I FORWARD 1 -j DOCKER-USER\n");
  });

  it("is removed without a trace, and another install's stays", () => {
    const text = removeText(parseTable(`${holding}-N PISTIS-ffffffffffff-OUT\n`), settings.key) ?? "";
    expect(text.match(/^-X /gm)).to.have.length(3);
    expect(text).to.not.contain("ffffffffffff");
    expect(removeText(parseTable(dockerHost), settings.key)).to.equal(undefined);
  });

  it("is printed as commands that change nothing when they are run again", () => {
    for (const line of firewallCommands(firewall).trim().split("\n")) {
      expect(line).to.match(
        /^iptables -w (-A PISTIS-|-N PISTIS-\S+ .*\|\| iptables -w -F |-C \S+ .*\|\| iptables -w -I )/,
      );
    }
  });
});
