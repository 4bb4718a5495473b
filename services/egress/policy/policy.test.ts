import { expect } from "chai";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { verdictOn } from "./policy.ts";

const allow = (...entries: string[]): SandboxNetwork => ({ mode: "allow", allow: entries });
const verdict = (network: SandboxNetwork | undefined, host: string, port = 443) => verdictOn(network, { host, port });

describe("what a sandbox may reach (S60, S62)", () => {
  it("is nothing by default, and nothing for a sandbox that nobody knows", () => {
    expect(verdict({ mode: "none" }, "example.com")).to.equal("network_none");
    expect(verdict(undefined, "example.com")).to.equal("sandbox_unknown");
  });

  it("is a listed host, on 443 and 80 where no port is named, else on that port only", () => {
    expect(verdict(allow("example.com"), "example.com")).to.equal("allowed");
    expect(verdict(allow("example.com"), "example.com", 80)).to.equal("allowed");
    expect(verdict(allow("example.com"), "example.com", 22)).to.equal("host_not_allowed");
    expect(verdict(allow("example.com:8443"), "example.com", 8443)).to.equal("allowed");
    expect(verdict(allow("example.com:8443"), "example.com")).to.equal("host_not_allowed");
  });

  it("is no name below, above or beside it, and no address unless that is listed", () => {
    for (const host of ["www.example.com", "com", "example.com.evil.org", "xexample.com", "192.0.2.1"]) {
      expect(verdict(allow("example.com"), host), host).to.equal("host_not_allowed");
    }
    expect(verdict(allow("192.0.2.1", "[2001:db8::1]:443"), "192.0.2.1")).to.equal("allowed");
    expect(verdict(allow("192.0.2.1", "[2001:db8::1]:443"), "2001:db8::1")).to.equal("allowed");
  });

  it("is every host when it is open; addresses are looked at later", () => {
    expect(verdict({ mode: "open" }, "example.com", 2222)).to.equal("allowed");
  });
});
