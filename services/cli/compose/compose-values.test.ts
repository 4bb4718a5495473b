import { parseEnv } from "node:util";
import { expect } from "chai";
import { CORE_USERS, EDGE_USERS } from "#shared/nats/keys.ts";
import { completedEnv, natsVariables } from "./compose-values.ts";

describe("the .env file of docker-compose.yml", () => {
  it("has a key pair for each NATS user and every other secret, all different", () => {
    const values = parseEnv(completedEnv(undefined).text);
    const pairs = [...CORE_USERS, ...EDGE_USERS].map(natsVariables);
    for (const { seed, publicKey } of pairs) {
      expect(values[seed]).to.match(/^SU[A-Z2-7]{56}$/);
      expect(values[publicKey]).to.match(/^U[A-Z2-7]{55}$/);
    }
    const others = ["INSTALL_ID", "ADMIN_TOKEN", "RELAY_KEY", "EGRESS_KEY", "POSTGRES_PASSWORD", "RELAY_VOLUME"];
    for (const name of others) expect(values[`PISTIS_${name}`]?.length, name).to.be.greaterThan(20);
    expect(Object.keys(values)).to.have.length(others.length + pairs.length * 2);
    expect(new Set(Object.values(values)).size).to.equal(Object.keys(values).length);
  });

  it("has values that no reader of such files takes for something else", () => {
    for (const value of Object.values(parseEnv(completedEnv(undefined).text))) expect(value).to.match(/^[\w-]+$/);
  });

  it("stays as it is when nothing is missing", () => {
    const { text } = completedEnv(undefined);
    expect(completedEnv(text)).to.deep.equal({ text, added: [] });
  });

  it("gets what a newer version needs, and keeps what a person wrote", () => {
    const { text } = completedEnv(undefined);
    const { PISTIS_RELAY_KEY } = parseEnv(text);
    const older = `${text.replace(/^PISTIS_EGRESS_KEY=.*\n/m, "")}# mine\nOPENAI_API_KEY=sk-1`;
    const completed = completedEnv(older);
    expect(completed.added).to.deep.equal(["PISTIS_EGRESS_KEY"]);
    expect(completed.text).to.match(/# mine\nOPENAI_API_KEY=sk-1\nPISTIS_EGRESS_KEY=\S+\n$/);
    expect(parseEnv(completed.text)).to.include({ PISTIS_RELAY_KEY });
  });

  it("refuses half a key pair", () => {
    const half = completedEnv(undefined).text.replace(/^PISTIS_NATS_USER_BRAIN=.*\n/m, "");
    expect(() => completedEnv(half)).to.throw("Of PISTIS_NATS_SEED_BRAIN and PISTIS_NATS_USER_BRAIN only one is set");
  });
});
