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

  it("lets a request set ordinary names only", () => {
    expect(["A", "_b1", "PATH", "GIT_EDITOR"].filter(mayBeSet)).to.have.length(4);
    expect(["LD_PRELOAD", "PISTIS_CALL", "PISTISD_X", "a-b", "1A", "A=B", ""].filter(mayBeSet)).to.deep.equal([]);
  });
});
