import { execFileSync } from "node:child_process";
import { expect } from "chai";
import { firstFileOf, smallTar, TAR_END, tarHeader } from "./tar.ts";

const listing = (tar: Buffer) =>
  execFileSync("tar", ["--numeric-owner", "-tvf", "-"], { input: tar, encoding: "utf8" });

describe("tar files for the engine", () => {
  it("are what tar itself reads, with owners above the octal form's limit", () => {
    const tar = smallTar([
      { path: "workspace", mode: 0o755, uid: 1_900_000_001 },
      { path: "var/lib/pistisd/join-token", mode: 0o600, uid: 1_900_000_001, content: "token" },
      { path: "etc/passwd", mode: 0o644, uid: 0, content: "x".repeat(512) },
    ]);
    const seen = listing(tar)
      .split("\n")
      .map((line) => line.split(/\s+/));
    expect(seen.slice(0, 3).map(([mode, owner, size, , , path]) => [mode, owner, size, path])).to.deep.equal([
      ["drwxr-xr-x", "1900000001/1900000001", "0", "workspace"],
      ["-rw-------", "1900000001/1900000001", "5", "var/lib/pistisd/join-token"],
      ["-rw-r--r--", "0/0", "512", "etc/passwd"],
    ]);
  });

  it("may hold a link", () => {
    const link = tarHeader({ path: "lib/ld.so", mode: 0o777, uid: 0, type: "link", target: "ld-linux.so.2" });
    expect(listing(Buffer.concat([link, TAR_END]))).to.contain("lib/ld.so -> ld-linux.so.2");
  });

  it("give their first file back, and nothing when there is none", () => {
    expect(firstFileOf(smallTar([{ path: "a", mode: 0o644, uid: 0, content: "inside" }]))?.toString()).to.equal(
      "inside",
    );
    expect(firstFileOf(smallTar([{ path: "a", mode: 0o755, uid: 0 }]))).to.equal(undefined);
    expect(firstFileOf(Buffer.from("short"))).to.equal(undefined);
  });

  it("refuse a path that does not fit", () => {
    expect(() => smallTar([{ path: "x".repeat(100), mode: 0o644, uid: 0, content: "" }])).to.throw(RangeError);
  });
});
