import { expect } from "chai";
import { Refused } from "./refused.ts";
import { readTarget } from "./target.ts";

const read = (url: string) => readTarget(url, 4_096);

describe("the target of a request to docker-proxy", () => {
  it("is the same with and without the version", () => {
    expect(read("/v1.41/containers/json?all=1")).to.deep.equal(read("/containers/json?all=1"));
    expect(read("/containers/json?all=1")).to.deep.equal({ path: "/containers/json", query: { all: "1" } });
  });

  it("reads an image's name with and without escapes alike", () => {
    const plain = read("/v1.41/images/registry.example:5000/team/base@sha256:aa/json");
    expect(read("/v1.41/images/registry.example%3A5000%2Fteam%2fbase%40sha256%3aaa/json")).to.deep.equal(plain);
  });

  it("reads the values of a query once", () => {
    const filters = encodeURIComponent('{"label":["a=b c+d"]}');
    expect(read(`/events?filters=${filters}&since=1`).query).to.deep.equal({
      filters: '{"label":["a=b c+d"]}',
      since: "1",
    });
  });

  const refused: Readonly<Record<string, string>> = {
    "": "path_unclear",
    "*": "path_unclear",
    "/": "path_unclear",
    "http://docker/containers/json": "path_unclear",
    "//containers/json": "path_unclear",
    "/containers//json": "path_unclear",
    "/containers/json/": "path_unclear",
    "/containers/./json": "path_unclear",
    "/containers/../images/json": "path_unclear",
    "/containers/x/../../images/json": "path_unclear",
    "/containers/%2e%2e/json": "path_unclear",
    "/containers%2fjson": "path_unclear",
    "/containers%2Fx%2Fexec": "path_unclear",
    "/containers/json%00": "path_unclear",
    "/containers/a;b/json": "path_unclear",
    "/containers/a\\..\\json": "path_unclear",
    "/containers/json#x": "path_unclear",
    "/containers/a b/json": "path_unclear",
    "/images/%2e%2e/json": "path_unclear",
    "/images/..%2fcontainers%2fx/json": "path_unclear",
    "/images/a%252fb/json": "path_unclear",
    "/images//a/json": "path_unclear",
    "/v1.40/containers/json": "api_version",
    "/v1.24/containers/x/start": "api_version",
    "/v1/containers/json": "api_version",
    "/v1.41/v1.41/containers/json": "version_twice",
    "/containers/json?all=1&all=0": "query_repeated",
    "/containers/json?": "query_unclear",
    "/containers/json?all": "query_unclear",
    "/containers/json?all=1&&size=1": "query_unclear",
    "/containers/json?a%6cl=1": "query_unclear",
    "/containers/json?all=%zz": "query_unclear",
    "/containers/json?all=%ff": "query_unclear",
    "/containers/json?all=1;size=1": "query_unclear",
    "/containers/json?all=1?size=1": "query_unclear",
    "/containers/json?__proto__=1": "query_unclear",
    [`/containers/json?all=${"1".repeat(5_000)}`]: "target_too_long",
  };
  for (const [url, rule] of Object.entries(refused)) {
    it(`refuses ${url.slice(0, 60)}`, () => {
      expect(() => read(url))
        .to.throw(Refused)
        .with.property("rule", rule);
    });
  }
});
