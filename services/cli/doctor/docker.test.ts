import { expect } from "chai";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import type { EngineFacts } from "../dev/check-docker.ts";
import { checkEngine, checkFacts, checkNetworks } from "./docker.ts";

const facts: EngineFacts = {
  version: "28.0.1",
  driver: "btrfs",
  mapsUsers: true,
  seccomp: true,
  limits: { memory: true, swap: true, processes: true, cpu: true },
  reservesDisk: true,
  cgroupVersion: "2",
};
const statuses = (changes: Partial<EngineFacts>) =>
  Object.fromEntries(checkFacts({ ...facts, ...changes }).map(({ name, status }) => [name, status]));

describe("pistis doctor, of Docker", () => {
  it("finds an engine fit that gives sandboxes all that there is", () => {
    expect(new Set(Object.values(statuses({})))).to.deep.equal(new Set(["ok"]));
  });

  const lacking: Readonly<Record<string, [Partial<EngineFacts>, string, RegExp]>> = {
    "a size of disks": [{ reservesDisk: false, driver: "overlay2" }, "Docker disks", /file system of its own/],
    "a system-call filter": [{ seccomp: false }, "Docker seccomp", /unconfined/],
    "a limit of swap": [{ limits: { ...facts.limits, swap: false } }, "Docker limits", /swapaccount=1/],
    "a limit of memory": [{ limits: { ...facts.limits, memory: false } }, "Docker limits", /cgroup_enable=memory/],
  };
  for (const [what, [changes, name, next]] of Object.entries(lacking)) {
    it(`says that there is not ${what}, and what to do`, () => {
      const wrong = checkFacts({ ...facts, ...changes }).filter(({ status }) => status !== "ok");
      expect(wrong.map((check) => check.name)).to.deep.equal([name]);
      expect(wrong[0]?.next).to.match(next);
    });
  }

  it("counts the networks that there may be", () => {
    expect(checkNetworks("10.208.0.0/12")).to.include({
      status: "ok",
      found: "10.208.0.0/12: 131072 sandboxes with internet",
    });
    for (const few of ["engine", "198.51.100.0/25"]) {
      expect(checkNetworks(few)).to.include({ status: "warn" });
      expect(checkNetworks(few).next).to.contain("default-address-pools");
    }
  });

  it("misses an engine that is not there only where sandboxes have to be Docker's", async () => {
    const at = (provider?: "docker") =>
      checkEngine(
        pistisConfig.parse({ sandboxes: { provider, docker: { host: "unix:///nonexistent.sock" } } }).sandboxes,
      );
    const [needed, ...more] = await at("docker");
    expect(needed).to.include({ name: "Docker", status: "missing" });
    expect(needed?.next).to.contain("Start Docker");
    expect(more).to.deep.equal([]);
    expect((await at()).map(({ status }) => status)).to.deep.equal(["warn"]);
  });
});
