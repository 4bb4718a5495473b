import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { readConfigPart } from "./read-config.ts";

const FILE = {
  models: { claude: { api: "anthropic", model: "any", apiKey: "${MODEL_KEY}" } },
  defaultModel: "claude",
  ledger: { shards: 3 },
  git: { credentials: [{ host: "git.invalid", token: "${GIT_TOKEN}" }] },
};

describe("a part of pistis.json", () => {
  let folder: string;
  let file: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-config-"));
    file = join(folder, "pistis.json");
    await writeFile(file, JSON.stringify(FILE));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("needs no variable of a section that is not read, and holds none", async () => {
    const config = await readConfigPart(file, { GIT_TOKEN: "token" }, { sections: ["ledger", "git"] });
    expect(config.ledger.shards).to.equal(3);
    expect(config.git.credentials[0]?.token).to.equal("token");
    expect(config.models).to.deep.equal({});
  });

  it("has the models' names without their keys", async () => {
    const part = { sections: ["defaultModel"], modelNames: true } as const;
    const config = await readConfigPart(file, { MODEL_KEY: "key" }, part);
    expect(config.defaultModel).to.equal("claude");
    expect(config.models).to.deep.equal({ claude: { api: "script" } });
  });

  it("still finds an unknown section", async () => {
    await writeFile(join(folder, "wrong.json"), JSON.stringify({ modles: {} }));
    const read = readConfigPart(join(folder, "wrong.json"), {}, { sections: ["ledger"] });
    const failure = await read.then(
      () => "",
      (error: Error) => error.message,
    );
    expect(failure).to.contain("modles: unknown key, did you mean models?");
  });
});
