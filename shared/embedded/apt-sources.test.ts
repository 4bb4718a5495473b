import { expect } from "chai";
import { parseAptSources } from "./apt-sources.ts";

describe("the machine's apt sources", () => {
  it("are read from deb822 files, one for each address and suite", () => {
    const text = `# a comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://security.example/debian
Suites: bookworm-security
Components: main
`;
    const common = {
      uri: "http://mirror.example/debian",
      components: ["main", "contrib"],
      signedBy: "/usr/share/keyrings/archive.gpg",
    };
    expect(parseAptSources("debian.sources", text)).to.deep.equal([
      { ...common, suite: "bookworm" },
      { ...common, suite: "bookworm-updates" },
      {
        uri: "http://security.example/debian",
        suite: "bookworm-security",
        components: ["main"],
        signedBy: undefined,
      },
    ]);
  });

  it("are read from one-line files", () => {
    const text = `
deb http://mirror.example/debian bookworm main contrib # the usual
deb [arch=amd64 signed-by=/etc/apt/keys/a.gpg] https://other.example/apt stable main
deb-src http://mirror.example/debian bookworm main
# deb http://old.example/debian buster main
`;
    expect(parseAptSources("sources.list", text)).to.deep.equal([
      { uri: "http://mirror.example/debian", suite: "bookworm", components: ["main", "contrib"], signedBy: undefined },
      { uri: "https://other.example/apt", suite: "stable", components: ["main"], signedBy: "/etc/apt/keys/a.gpg" },
    ]);
  });

  it("leave out what is disabled, holds only sources, or carries its key within", () => {
    const stanza = (line: string) => `Types: deb\nURIs: http://m.example/d\nSuites: sid\nComponents: main\n${line}\n`;
    expect(parseAptSources("a.sources", stanza("Enabled: no"))).to.deep.equal([]);
    expect(parseAptSources("a.sources", stanza("X: y").replace("Types: deb", "Types: deb-src"))).to.deep.equal([]);
    const inline = parseAptSources("a.sources", stanza("Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----"));
    expect(inline).to.have.length(1);
    expect(inline[0]).to.have.property("signedBy", undefined);
    expect(parseAptSources("empty.list", "")).to.deep.equal([]);
  });
});
