import { expect } from "chai";
import { LABELS } from "#shared/docker/names.ts";
import { checked } from "../http/checked.ts";
import { Refused } from "../http/refused.ts";
import { networkTestBody, TEST_KEY } from "../testing/bodies.ts";
import { networkBody } from "./create-body.ts";
import { poolCheck } from "./pool.ts";

const inPool = networkBody({ key: TEST_KEY, isInPool: poolCheck("10.208.0.0/12") });

type Json = Readonly<Record<string, unknown>>;

const refused = (changes: Json, rule: string) =>
  expect(() => checked(inPool, { ...networkTestBody(), ...changes }))
    .to.throw(Refused)
    .with.property("rule", rule);

describe("the body of a sandbox's network", () => {
  it("is passed on as it was understood", () => {
    expect(checked(inPool, networkTestBody())).to.deep.equal(networkTestBody());
  });

  it("has addresses of the pool, or where the pool is the engine's, none of its own", () => {
    const { IPAM, ...free } = networkTestBody();
    expect(() => checked(inPool, free)).to.throw(Refused);
    const engines = networkBody({ key: TEST_KEY, isInPool: "engine" });
    expect(checked(engines, free)).to.deep.equal(free);
    expect(() => checked(engines, { ...free, IPAM })).to.throw(Refused);
  });

  const badValues: Readonly<Record<string, Json>> = {
    "the name of another install's": { Name: "pistis-ffffffffffff-sbx_1-g1" },
    "the name of the default bridge": { Name: "bridge" },
    "a driver that puts it on the host's network": { Driver: "macvlan" },
    "the host's driver": { Driver: "host" },
    IPv6: { EnableIPv6: true },
    "others that attach to it": { Attachable: true },
    "addresses outside of the pool": { IPAM: { Driver: "default", Config: [{ Subnet: "192.168.1.0/24" }] } },
    "another source of addresses": { IPAM: { Driver: "dhcp", Config: [{ Subnet: "10.208.0.0/29" }] } },
    "two ranges": { IPAM: { Driver: "default", Config: [{ Subnet: "10.208.0.0/29" }, { Subnet: "10.208.0.8/29" }] } },
    "peers that reach each other": { Options: { "com.docker.network.bridge.enable_icc": "true" } },
    "another install's label": { Labels: { ...networkTestBody().Labels, [LABELS.install]: "ffffffffffff" } },
  };
  for (const [what, change] of Object.entries(badValues)) {
    it(`never has ${what}`, () => refused(change, "value_refused"));
  }

  const { Options, IPAM } = networkTestBody();
  const withOption = (name: string, value: string) => ({ Options: { ...Options, [name]: value } });
  const foreignKeys: Readonly<Record<string, Json>> = {
    "an existing bridge of the host": withOption("com.docker.network.bridge.name", "docker0"),
    "a device of the host": withOption("parent", "eth0"),
    "published ports on an address of the host": withOption("com.docker.network.bridge.host_binding_ipv4", "0.0.0.0"),
    "no masquerading": withOption("com.docker.network.bridge.enable_ip_masquerade", "false"),
    "a gateway of its own": { IPAM: { ...IPAM, Config: [{ Subnet: "10.208.0.0/29", Gateway: "10.208.0.3" }] } },
    "the settings of another network": { ConfigFrom: { Network: "other" } },
    "a scope of the swarm": { Scope: "swarm" },
    "a swarm's ingress": { Ingress: true },
  };
  for (const [what, change] of Object.entries(foreignKeys)) {
    it(`never has ${what}`, () => refused(change, "key_refused"));
  }
});
