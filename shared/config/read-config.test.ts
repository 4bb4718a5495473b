import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { configOf, readConfig } from "./read-config.ts";

const FILE = "/etc/pistis/pistis.json";

function refused(written: unknown, environment = {}): Refusal {
  try {
    configOf(written, FILE, environment);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error("It was not refused");
}

describe("pistis.json", () => {
  it("is valid when empty, and all defaults without a file", async () => {
    expect(configOf({}, FILE, {})).to.deep.equal(pistisConfig.parse({}));
    expect(await readConfig(undefined, {})).to.deep.equal(pistisConfig.parse({}));
  });

  it("takes values from the environment, also within a text and as a number", () => {
    const written = {
      models: { claude: { api: "anthropic", model: "m", apiKey: "${KEY}", baseUrl: "https://${HOST}/v1" } },
      server: { port: "${PORT}" },
      recovery: { reattach: "${REATTACH}" },
    };
    const config = configOf(written, FILE, { KEY: "k", HOST: "models.test", PORT: "99", REATTACH: "false" });
    expect(config.models["claude"]).to.include({ apiKey: "k", baseUrl: "https://models.test/v1" });
    expect(config.server.port).to.equal(99);
    expect(config.recovery.reattach).to.equal(false);
  });

  it("leaves an escaped reference and what it takes from the environment as they are", () => {
    const written = { models: { a: { api: "openai", model: "$${NAME}", apiKey: "${KEY}" } } };
    expect(configOf(written, FILE, { KEY: "${OTHER}" }).models["a"]).to.include({
      model: "${NAME}",
      apiKey: "${OTHER}",
    });
  });

  it("names the key and the variable that is not set", () => {
    const error = refused({ models: { claude: { api: "anthropic", model: "m", apiKey: "${ANTHROPIC_API_KEY}" } } });
    expect(error.code).to.equal("config_invalid");
    expect(error.message).to.contain("models.claude.apiKey: the environment variable ANTHROPIC_API_KEY is not set");
    expect(error.next).to.equal("Set ANTHROPIC_API_KEY");
  });

  it("says what was found and what is allowed", () => {
    const cases: [object, string][] = [
      [{ server: { port: "x" } }, 'server.port: found "x", allowed is a whole number from 0 to 65535'],
      [{ server: { port: 70_000 } }, "server.port: found 70000, allowed is a whole number from 0 to 65535"],
      [{ sandboxes: { cpuCores: 0 } }, "sandboxes.cpuCores: found 0, allowed is a number from 0.1"],
      [{ recovery: { reattach: "yes" } }, 'recovery.reattach: found "yes", allowed is true or false'],
      [{ sandboxes: { provider: "bare" } }, 'sandboxes.provider: found "bare", allowed is one of "local", "docker"'],
      [{ limits: { stepsPerTurnMax: 0 } }, "limits.stepsPerTurnMax: found 0, allowed is a whole number above 0"],
      [{ models: { a: { api: "x" } } }, 'models.a.api: found "x", allowed is one of "anthropic", "openai"'],
      [{ models: { a: {} } }, 'models.a.api: found nothing, allowed is one of "anthropic", "openai"'],
      [{ models: { a: { api: "openai", model: "m" } } }, "models.a.apiKey: found nothing, allowed is a text"],
      [{ models: { "a b": { api: "script" } } }, 'models."a b": found the name "a b", which must match pattern'],
      [{ git: { credentials: {} } }, "git.credentials: found an object, allowed is a list"],
      [{ git: { credentials: [{ token: "t" }] } }, "git.credentials[0].host: found nothing, allowed is a text"],
      [{ server: [] }, "server: found a list, allowed is an object with the keys host, port"],
      [{ defaultModel: "claud" }, 'defaultModel: found "claud", allowed is one of script'],
    ];
    for (const [written, expected] of cases) expect(refused(written).message).to.contain(expected);
    expect(refused([]).message).to.contain("the whole file: found a list, allowed is an object with the keys");
  });

  it("refuses an unknown key and says which one was meant", () => {
    expect(refused({ sever: {} }).message).to.contain("sever: unknown key, did you mean server?");
    expect(refused({ server: { prot: 1 } }).message).to.contain("server.prot: unknown key, did you mean port?");
    expect(refused({ server: { colour: 1 } }).message).to.contain("server.colour: unknown key, allowed are host, port");
    const key = { models: { a: { api: "openai", model: "m", apikey: "${K}" } } };
    expect(refused(key, { K: "k" }).message).to.contain("models.a.apikey: unknown key, did you mean apiKey?");
  });

  it("says everything that is wrong at once", () => {
    const { message } = refused({ server: { port: "x", host: 1 }, ledger: { shards: 1_000 }, relai: {} });
    expect(message.split("\n")).to.have.length(5);
  });

  it("never shows a secret, whether it is written down or from the environment", () => {
    const canary = "sk-canary-1234567890";
    const files: object[] = [
      { models: { a: { api: "openai", model: 1, apiKey: canary } } },
      { models: { a: { api: "openai-compatible", model: 1, baseUrl: "http://x.test", apiKey: [canary] } } },
      { git: { credentials: canary } },
      { git: { credentials: [{ host: 1, token: canary }] } },
      { models: { a: { api: "${SECRET}" } } },
      { server: { port: "${SECRET}" } },
      { server: { port: "a${SECRET}" }, sandboxes: { provider: "${SECRET}b" } },
    ];
    const messages = files.map((file) => refused(file, { SECRET: canary }).message);
    for (const message of messages) expect(message).to.not.contain("canary");
    expect(messages[5]).to.contain("server.port: found a text (not shown) from ${SECRET}");
  });

  it("says where a folder is relative to: the file", () => {
    const written = { sandboxes: { local: { readOnly: { "/tools": "tools", "/opt/x": "/srv/x" } } } };
    const { readOnly } = configOf(written, FILE, {}).sandboxes.local;
    expect(readOnly).to.deep.equal({ "/tools": "/etc/pistis/tools", "/opt/x": "/srv/x" });
  });
});

describe("reading pistis.json from disk", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-config-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function failure(text: string): Promise<Refusal> {
    const file = join(folder, "pistis.json");
    await writeFile(file, text);
    const error = await readConfig(file, {}).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Refusal);
    return error as Refusal;
  }

  it("reads a file, with a byte order mark too", async () => {
    const file = join(folder, "pistis.json");
    await writeFile(file, '\uFEFF{ "server": { "port": 1 } }');
    expect((await readConfig(file, {})).server.port).to.equal(1);
  });

  it("says where the JSON is broken without quoting the file", async () => {
    const broken = await failure('{\n  "apiKey": "sk-canary" 1 }');
    expect(broken.message).to.contain("line 2 column 25").and.not.contain("canary");
    expect((await failure('{ "apiKey": sk-canary }')).message).to.not.contain("canary");
    expect((await failure("")).message).to.contain("Unexpected end of JSON input");
  });

  it("refuses a file that is not there", async () => {
    const error = await readConfig(join(folder, "none.json"), {}).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Refusal).with.property("code", "config_missing");
  });
});
