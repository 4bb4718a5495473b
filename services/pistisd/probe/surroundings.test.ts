import { expect } from "chai";
import { isLoopback, socketAddress } from "./address-bytes.ts";
import { gateways6In, gatewaysIn, interfaceNamesIn, placesAround, resolversIn, scopesIn } from "./surroundings.ts";

describe("what a probe sees around it", () => {
  it("reads gateways, interfaces and resolvers as the kernel writes them", () => {
    const route = [
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
      "eth0\t00000000\t016433C6\t0003\t0\t0\t0\t00000000\t0\t0\t0",
      "eth0\t006433C6\t00000000\t0001\t0\t0\t0\tF8FFFFFF\t0\t0\t0",
    ].join("\n");
    expect(gatewaysIn(route)).to.deep.equal(["198.51.100.1"]);
    expect(gatewaysIn("")).to.deep.equal([]);
    const hop = "fe800000000000000000000000000001";
    const zero = "0".repeat(32);
    const route6 = `${zero} 00 ${zero} 00 ${hop} 00000400 00000001 00000000 00000003     eth0\n${zero} 00 ${zero} 00 ${zero} 00 0 0 0 lo`;
    expect(gateways6In(route6)).to.deep.equal([{ host: "fe80:0000:0000:0000:0000:0000:0000:0001", device: "eth0" }]);
    const devices = "Inter-|   Receive\n face |bytes\n    lo:       0\n  eth0: 100 1\n";
    expect(interfaceNamesIn(devices)).to.deep.equal(["eth0"]);
    expect(scopesIn(`${hop} 1f 40 20 80     eth0\n`).get("eth0")).to.equal(31);
    expect(resolversIn("# x\nnameserver 192.0.2.53\nsearch a\nnameserver 2001:db8::53\n")).to.deep.equal([
      "192.0.2.53",
      "2001:db8::53",
    ]);
    expect(resolversIn("")).to.deep.equal(["127.0.0.1"]);
  });

  it("tries a small subnet whole, and where the subnets beside it would have a gateway and a sibling", () => {
    const addresses = [{ address: "198.51.100.10", prefix: 29 }];
    const gateways = [{ host: "198.51.100.9", scope: 0 }];
    const places = placesAround({ interfaces: [{ name: "eth0", scope: 2, addresses }], gateways, resolvers: [] });
    const hosts = places.map(({ host }) => host);
    expect(hosts).to.include.members(["198.51.100.9", "198.51.100.14", "198.51.100.1", "198.51.100.18", "fe80::1"]);
    expect(hosts).to.not.include("198.51.100.10");
    expect(new Set(hosts).size).to.equal(hosts.length);
  });

  it("tries the ends of a large subnet only, and nothing when there is no interface", () => {
    const addresses = [{ address: "198.51.100.10", prefix: 16 }];
    const around = { interfaces: [{ name: "eth0", scope: undefined, addresses }], gateways: [], resolvers: [] };
    expect(placesAround(around).map(({ host }) => host)).to.deep.equal([
      "198.51.0.1",
      "198.51.0.2",
      "198.51.255.254",
      "198.50.0.1",
      "198.50.0.2",
      "198.52.0.1",
      "198.52.0.2",
    ]);
    expect(placesAround({ interfaces: [], gateways: [], resolvers: [] })).to.deep.equal([]);
  });
});

describe("addresses as the kernel takes them", () => {
  it("hold family, port, address and scope", () => {
    expect([...socketAddress("192.0.2.1", 443).bytes]).to.deep.equal([2, 0, 1, 187, 192, 0, 2, 1, ...Array(8).fill(0)]);
    const { family, bytes } = socketAddress("2001:db8::1", 80, 3);
    expect(family).to.equal(10);
    expect([...bytes]).to.deep.equal([
      ...[10, 0, 0, 80, 0, 0, 0, 0],
      ...[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
      ...[3, 0, 0, 0],
    ]);
    expect([...socketAddress("::ffff:192.0.2.1", 80).bytes].slice(18, 24)).to.deep.equal([255, 255, 192, 0, 2, 1]);
  });

  it("are this machine's own, or not", () => {
    for (const host of ["127.0.0.1", "127.9.9.9", "::1", "0:0:0:0:0:0:0:1"])
      expect(isLoopback(host), host).to.equal(true);
    for (const host of ["192.0.2.1", "::2", "fe80::1"]) expect(isLoopback(host), host).to.equal(false);
  });
});
