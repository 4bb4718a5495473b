import { expect } from "chai";
import { allowSetting, networkOf } from "./sandbox-network.ts";

describe("the network of a sandbox", () => {
  it("S60: is none unless something is allowed", () => {
    expect(networkOf({ allow: [], internet: false })).to.deep.equal({ mode: "none" });
  });

  it("S61: is a list of hosts in their one form, each once", () => {
    expect(
      networkOf({ allow: ["Example.com.", "example.com", "api.example.com:8443"], internet: false }),
    ).to.deep.equal({
      mode: "allow",
      allow: ["example.com", "api.example.com:8443"],
    });
  });

  it("S62: knows npm, pypi, crates and go by their registries' hosts", () => {
    const hosts = (name: string) => networkOf({ allow: [name], internet: false });
    expect(hosts("npm")).to.deep.equal({ mode: "allow", allow: ["registry.npmjs.org"] });
    expect(hosts("pypi")).to.deep.include({ allow: ["pypi.org", "files.pythonhosted.org"] });
    for (const name of ["crates", "go"]) expect(hosts(name)).to.have.property("allow").that.has.length.greaterThan(1);
  });

  it("S61: is the internet when that is allowed, whatever the list says", () => {
    expect(networkOf({ allow: ["npm"], internet: true })).to.deep.equal({ mode: "open" });
  });

  it("S62: takes no wildcard and no address of a page", () => {
    for (const text of ["npm", "example.com", "example.com:8443"]) {
      expect(allowSetting.safeParse(text).success, text).to.equal(true);
    }
    for (const text of ["*.example.com", "*", "https://example.com", "example.com/a", ""]) {
      expect(allowSetting.safeParse(text).success, text).to.equal(false);
    }
  });
});
