import { expect } from "chai";
import { Command, CommanderError } from "commander";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { networkOf } from "#schemas/network/sandbox-network.ts";
import { addNetworkOptions, type NetworkOptions, networkText, withNetwork } from "./network-options.ts";

function parsed(...args: string[]): NetworkOptions {
  const command = addNetworkOptions(new Command("dev"))
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  return command.parse(args, { from: "user" }).opts<NetworkOptions>();
}

const networkWith = (sandboxes: object, ...args: string[]) =>
  networkOf(withNetwork(pistisConfig.parse({ sandboxes }), parsed(...args)).sandboxes);

describe("the network options of pistis dev (S61)", () => {
  it("leave sandboxes without a network when there are none", () => {
    expect(networkWith({})).to.deep.equal({ mode: "none" });
    expect(networkText(pistisConfig.parse({}))).to.contain("nothing but Pistis");
  });

  it("add registries and hosts to those of pistis.json, each as often as wanted", () => {
    const args = [
      "--allow-registry",
      "npm",
      "--allow-registry",
      "go",
      "--allow",
      "Example.com:8443",
      "--allow",
      "b.example",
    ];
    const { allow } = { allow: [], ...networkWith({ allow: ["a.example"] }, ...args) };
    expect(allow).to.include.members([
      "a.example",
      "registry.npmjs.org",
      "proxy.golang.org",
      "example.com:8443",
      "b.example",
    ]);
  });

  it("open the internet, or leave it open", () => {
    expect(networkWith({}, "--internet")).to.deep.equal({ mode: "open" });
    expect(networkWith({ internet: true })).to.deep.equal({ mode: "open" });
  });

  it("S62: refuse a wildcard, a page and a registry that nobody knows", () => {
    for (const args of [
      ["--allow", "*.example.com"],
      ["--allow", "https://a.example"],
      ["--allow-registry", "maven"],
    ]) {
      expect(() => parsed(...args), args.join(" ")).to.throw(CommanderError);
    }
  });
});
