import { expect } from "chai";
import { parseEgressAddress } from "./egress-pipe.ts";

describe("the address of the egress service", () => {
  it("is a Unix socket or a host and a port", () => {
    expect(parseEgressAddress("unix:/run/egress.sock")).to.deep.equal({ path: "/run/egress.sock" });
    expect(parseEgressAddress("tcp://egress:4182")).to.deep.equal({ host: "egress", port: 4182 });
    expect(parseEgressAddress("tcp://[::1]:4182")).to.deep.equal({ host: "::1", port: 4182 });
  });

  it("is nothing else", () => {
    for (const text of ["", "unix:relative", "http://egress:4182", "tcp://egress", "tcp://egress:0", "tcp://a:70000"]) {
      expect(parseEgressAddress(text), text).to.equal(undefined);
    }
  });
});
