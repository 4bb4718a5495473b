import { expect } from "chai";
import { LABELS } from "#shared/docker/names.ts";
import { checked } from "../http/checked.ts";
import { Refused } from "../http/refused.ts";
import { TEST_KEY, volumeTestBody } from "../testing/bodies.ts";
import { pistisdVolumeBody, startVolumeBody } from "./create-body.ts";

type Json = Readonly<Record<string, unknown>>;

const refused = (changes: Json, rule: string) =>
  expect(() => checked(pistisdVolumeBody(TEST_KEY), { ...volumeTestBody(), ...changes }))
    .to.throw(Refused)
    .with.property("rule", rule);

describe("the body of a volume", () => {
  it("is passed on as it was understood", () => {
    expect(checked(pistisdVolumeBody(TEST_KEY), volumeTestBody())).to.deep.equal(volumeTestBody());
    const start = {
      Name: `pistis-${TEST_KEY}-sbx_1-g1-tsk_1`,
      Labels: { ...volumeTestBody().Labels, [LABELS.role]: "start" },
    };
    expect(checked(startVolumeBody(TEST_KEY), start)).to.deep.equal(start);
  });

  it("names no driver and no option: they could make it stand for a folder of the host", () => {
    refused({ Driver: "local" }, "key_refused");
    refused({ DriverOpts: { type: "none", o: "bind", device: "/" } }, "key_refused");
    refused({ ClusterVolumeSpec: {} }, "key_refused");
  });

  it("has the name and the label of this install", () => {
    refused({ Name: "pistis-ffffffffffff-pistisd-0123456789abcdef" }, "value_refused");
    refused({ Name: "team_postgres" }, "value_refused");
    refused({ Labels: { ...volumeTestBody().Labels, [LABELS.install]: "ffffffffffff" } }, "value_refused");
    refused({ Labels: {} }, "value_refused");
  });
});
