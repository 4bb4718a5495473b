import { expect } from "chai";
import { authorityText, parseAuthority } from "./authority.ts";

const same = (one: string, other: string) => expect(parseAuthority(one), one).to.deep.equal(parseAuthority(other));

describe("an authority (S62)", () => {
  it("is a host, or a host and a port", () => {
    expect(parseAuthority("example.com")).to.deep.equal({ host: "example.com", port: undefined });
    expect(parseAuthority("example.com:8443")).to.deep.equal({ host: "example.com", port: 8443 });
    expect(parseAuthority("[2001:db8::1]:443")).to.deep.equal({ host: "2001:db8::1", port: 443 });
  });

  it("has one form, however it is spelled", () => {
    same("EXAMPLE.com.", "example.com");
    same("bücher.example", "xn--bcher-kva.example");
    same("ＥＸＡＭＰＬＥ.com", "example.com");
    same("0x7f.1", "127.0.0.1");
    same("3221225985", "192.0.2.1");
    same("[2001:DB8:0:0::1]", "[2001:db8::1]");
  });

  it("is nothing else: no wildcard, no address of a page, no name within a name", () => {
    const others = ["", "*", "*.example.com", "http://example.com", "example.com/path", "user@example.com", "a b"];
    const broken = ["example.com:0", "example.com:65536", "example.com:", ":443", "a..b", ".", "-a.com", "a.com:80:80"];
    const hidden = [
      "example.com%2eevil.com",
      "example.com\0.evil.com",
      "example.com#evil",
      "ex\tample.com",
      "[::1%lo]",
    ];
    for (const text of [...others, ...broken, ...hidden, `${"a".repeat(64)}.com`, `a.${"b.".repeat(200)}com`]) {
      expect(parseAuthority(text), JSON.stringify(text)).to.equal(undefined);
    }
  });

  it("reads back what it is written as", () => {
    for (const text of ["example.com", "example.com:8443", "[2001:db8::1]:443", "[2001:db8::1]", "192.0.2.1:80"]) {
      const authority = parseAuthority(text);
      expect(authority && authorityText(authority)).to.equal(text);
    }
  });
});
