import { expect } from "chai";
import { commandEnvironment, mayBeSet } from "./environment.ts";

describe("the environment of commands", () => {
  it("takes over the image's tools", () => {
    const own = {
      PATH: "/usr/local/go/bin:/bin",
      JAVA_HOME: "/j",
      GOPATH: "/go",
      NODE_VERSION: "24",
      HTTPS_PROXY: "p",
    };
    expect(commandEnvironment(own)).to.include(own);
  });

  it("takes over nothing else", () => {
    const own = {
      ...{ PISTIS_JOIN_TOKEN: "1", PISTIS_RELAY: "1", PISTISD_STATE: "1", PISTIS_HOME: "1", API_KEY: "1" },
      ...{ LD_PRELOAD: "1", LD_LIBRARY_PATH: "1", BUN_OPTIONS: "1", NODE_OPTIONS: "1", BASH_ENV: "1", ENV: "1" },
      "BASH_FUNC_ls%%": "() { evil; }",
    };
    expect(commandEnvironment(own)).not.to.have.any.keys(...Object.keys(own));
  });

  it("C73: has no editor and no pager, whatever the image sets", () => {
    const own = { EDITOR: "vi", PAGER: "less", GIT_EDITOR: "vim", TERM: "xterm" };
    expect(commandEnvironment(own)).to.include({ EDITOR: "true", PAGER: "cat", GIT_EDITOR: "true", TERM: "dumb" });
  });

  it("has a path and a home when the image sets none", () => {
    expect(commandEnvironment({})).to.include({ HOME: "/root" }).and.to.have.property("PATH").that.contains("/bin");
  });

  it("C119: names the sandbox's proxy in both cases, and to Node, when there is a way out", () => {
    const environment = commandEnvironment({ PISTIS_EGRESS: "1", HTTPS_PROXY: "http://image.example" });
    for (const name of ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]) {
      expect(environment).to.have.property(name, "http://127.0.0.1:3128");
      expect(environment).to.have.property(name.toLowerCase(), "http://127.0.0.1:3128");
    }
    expect(environment["NO_PROXY"]).to.equal("localhost,127.0.0.1,::1").and.to.equal(environment["no_proxy"]);
    expect(environment).to.have.property("NODE_USE_ENV_PROXY", "1").and.not.have.property("PISTIS_EGRESS");
  });

  it("C119: names no proxy when there is no way out", () => {
    for (const own of [{}, { PISTIS_EGRESS: "0" }, { PISTIS_EGRESS: "" }]) {
      expect(Object.keys(commandEnvironment(own)).filter((name) => /proxy/i.test(name))).to.deep.equal([]);
    }
  });

  it("lets a request set ordinary names only", () => {
    expect(["A", "_b1", "PATH", "GIT_EDITOR"].filter(mayBeSet)).to.have.length(4);
    expect(["LD_PRELOAD", "PISTIS_CALL", "PISTISD_X", "a-b", "1A", "A=B", ""].filter(mayBeSet)).to.deep.equal([]);
  });
});
