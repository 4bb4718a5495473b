import { expect } from "chai";
import { Refusal } from "#shared/errors/errors.ts";
import { checkRepositorySource } from "./repository-source.ts";

const codeOf = (url: string, ref?: string) => {
  try {
    checkRepositorySource(ref === undefined ? { url } : { url, ref });
    return "fine";
  } catch (error) {
    return error instanceof Refusal ? error.code : "thrown";
  }
};

describe("the source of a repository", () => {
  for (const url of [
    "https://github.com/acme/api.git",
    "http://git.internal:3000/a/b",
    "ssh://git@github.com/acme/api.git",
    "ssh://git@github.com:22/acme/api.git",
    "git@github.com:acme/api.git",
    "/srv/git/api",
    "/srv/my projects/api",
  ]) {
    it(`may be ${url}`, () => expect(codeOf(url, "main")).to.equal("fine"));
  }

  for (const url of [
    "https://user:secret@github.com/acme/api.git",
    "https://ghp_token@github.com/acme/api.git",
    "https://oauth2:@gitlab.com/a/b.git",
    "ssh://git:secret@github.com/acme/api.git",
    "git:secret@github.com:acme/api.git",
    "https://example.org/a.git?private_token=x",
  ]) {
    it(`C110: is refused with a credential in it: ${url}`, () => {
      expect(codeOf(url)).to.equal("repository_url_has_credentials");
    });
  }

  for (const url of ["repo", "./repo", "../repo", "~/repo", "C:\\repo"]) {
    it(`is refused as a path that is not absolute: ${url}`, () => {
      expect(codeOf(url)).to.equal("repository_path_not_absolute");
    });
  }

  for (const url of [
    "ext::sh -c touch% /tmp/x",
    "ext::sh",
    "--upload-pack=/bin/sh",
    "file:///srv/git/api",
    "https://",
    "ftp://example.org/a.git",
    "https://example.org/a b.git",
    "https://example.org/a.git#main",
    "/srv/a\0b",
  ]) {
    it(`is refused where git could do something else with it: ${JSON.stringify(url)}`, () => {
      expect(codeOf(url)).to.equal("repository_url_invalid");
    });
  }

  it("has a ref that git cannot take for an option", () => {
    expect(codeOf("/srv/git/api", "--output=/etc/x")).to.equal("repository_url_invalid");
    expect(codeOf("/srv/git/api", "a\nb")).to.equal("repository_url_invalid");
  });
});
