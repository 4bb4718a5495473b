import { expect } from "chai";
import { openPublicAddresses } from "./public-addresses.ts";

const { isPublic } = openPublicAddresses({ except: [], own: () => ["93.184.216.34", "2606:2800::1"] });

describe("public addresses (S60)", () => {
  it("are those of the internet", () => {
    for (const address of ["1.1.1.1", "93.184.216.35", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"]) {
      expect(isPublic(address), address).to.equal(true);
    }
  });

  it("are not private, loopback, link-local, shared, multicast, reserved or for documentation", () => {
    const v4 = ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "127.255.0.1", "0.0.0.0"];
    const more = [
      "100.64.0.1",
      "198.18.0.1",
      "224.0.0.1",
      "255.255.255.255",
      "192.0.2.1",
      "198.51.100.1",
      "203.0.113.1",
    ];
    const v6 = [
      "::1",
      "::",
      "fe80::1",
      "fc00::1",
      "fd12::1",
      "ff02::1",
      "2001:db8::1",
      "3fff::1",
      "fec0::1",
      "5f00::1",
    ];
    for (const address of [...v4, ...more, ...v6]) expect(isPublic(address), address).to.equal(false);
  });

  it("are no cloud's metadata", () => {
    for (const address of ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"]) {
      expect(isPublic(address), address).to.equal(false);
    }
  });

  it("hide no IPv4 address in an IPv6 one: mapped, compatible, NAT64, 6to4, Teredo", () => {
    const inside = ["::ffff:10.0.0.1", "::ffff:1.1.1.1", "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1"];
    for (const address of [...inside, "2002:a00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"]) {
      expect(isPublic(address), address).to.equal(false);
    }
  });

  it("are not this machine's own", () => {
    for (const address of ["93.184.216.34", "2606:2800::1"]) expect(isPublic(address), address).to.equal(false);
  });

  it("are nothing that is no address", () => {
    for (const text of ["", "example.com", "1.1.1", "1.1.1.1 ", "fe80::1%lo", "0x7f.1"]) {
      expect(isPublic(text), text).to.equal(false);
    }
  });

  it("are stand-ins only where a test names their range", () => {
    const { isPublic: withStandIns } = openPublicAddresses({ except: ["192.0.2.0/24"], own: () => [] });
    expect(withStandIns("192.0.2.7")).to.equal(true);
    expect(withStandIns("198.51.100.7")).to.equal(false);
    expect(() => openPublicAddresses({ except: ["192.0.2.0"], own: () => [] })).to.throw(RangeError);
  });
});
