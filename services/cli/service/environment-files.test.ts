import { parseEnv } from "node:util";
import { expect } from "chai";
import { newNatsKeys } from "#shared/nats/keys.ts";
import { stateFolder } from "../state/state-folder.ts";
import { environmentText, type InstallValues } from "./environment-files.ts";
import { serviceProcesses } from "./service-processes.ts";

const values: InstallValues = {
  natsUrl: "nats://127.0.0.1:4222",
  natsKeys: newNatsKeys(),
  databaseUrl: "postgres://pistis:p%40ss@127.0.0.1:5432/pistis",
  relayUrl: "http://127.0.0.1:4181",
  relayKey: "relay-key-of-this-install",
  egressKey: "egress-key-of-this-install",
  adminToken: "admin-token-of-this-install",
  installId: "install-1",
  configFile: undefined,
};

function filesIn(path: string): Map<string, NodeJS.Dict<string>> {
  const folder = stateFolder(path, {}, "/");
  return new Map(serviceProcesses.map((service) => [service.name, parseEnv(environmentText(service, folder, values))]));
}

describe("the environment files of an install", () => {
  it("give each service what it reads and nothing else", () => {
    for (const [name, variables] of filesIn("/state")) {
      const service = serviceProcesses.find((one) => one.name === name);
      expect(service?.variableNames, name).to.include.members(Object.keys(variables));
      const optional = ["PISTIS_CONFIG", "PISTIS_BRAIN_NAME", "PISTIS_PISTISD"];
      expect([...Object.keys(variables), ...optional], name).to.include.members([...(service?.variableNames ?? [])]);
    }
  });

  it("hold only the seeds of the service's own NATS users", () => {
    const { natsKeys } = values;
    for (const [name, variables] of filesIn("/state")) {
      const seeds = Object.entries(natsKeys).filter(([, { seed }]) => Object.values(variables).includes(seed));
      const users = seeds.map(([user]) => user).sort();
      expect(users, name).to.deep.equal(usersOf(name));
    }
  });

  it("keep a path with blanks and marks as it is", () => {
    const blobs = filesIn("/my state's #1").get("brain")?.["PISTIS_BLOBS"];
    expect(blobs).to.equal("/my state's #1/blobs");
  });
});

function usersOf(service: string): string[] {
  if (service === "docker-proxy") return [];
  return service === "scheduler" ? ["edge-scheduler", "scheduler"] : [service];
}
