import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { startNatsServer } from "#shared/embedded/nats-server.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { startTestNats } from "#shared/testing/nats.ts";
import { openNats } from "./access.ts";
import { newNatsKeys } from "./keys.ts";
import { prepareNats, requireLedger } from "./setup.ts";

describe("a service's way to the ledger", () => {
  const resources = new Resources();
  after(() => resources.close());

  it("is refused before set-up and with another number of shards, with what to do", async () => {
    const stateDir = await mkdtemp(join(tmpdir(), "pistis-access-"));
    resources.add("folder", stateDir, (folder) => rm(folder, { recursive: true, force: true }));
    const keys = newNatsKeys();
    const server = await startNatsServer({ stateDir, keys, shards: 2, log: silentLog });
    resources.add("server", server, ({ close }) => close());
    const as = (user: "brain" | "setup" | "edge-setup") =>
      openNats({ url: server.url, seed: keys[user].seed }, user, resources);
    const nats = await as("brain");
    const refusal = (shards: number) =>
      requireLedger(nats, shards).then(
        () => undefined,
        (error: unknown) => failureOf(error),
      );
    expect((await refusal(2))?.code).to.equal("ledger_missing");
    await prepareNats({ core: await as("setup"), edge: await as("edge-setup"), shards: 2 });
    expect(await refusal(2)).to.equal(undefined);
    const fixed = await refusal(3);
    expect(fixed?.code).to.equal("ledger_shards_fixed");
    expect(fixed?.next).to.contain("ledger.shards");
  });

  it("C140: breaks the process's resources when its connection ends by itself, and not when they are closed", async () => {
    const server = await startTestNats();
    resources.add("test server", server, ({ close }) => close());
    const open = (of: Resources) => openNats({ url: server.url, seed: server.keys.brain.seed }, "brain", of);
    const [own, other] = [new Resources(), new Resources()];
    await open(other);
    await other.close();
    const nats = await open(own);
    const broken = once(own.broken, "abort");
    await nats.close();
    await broken;
    expect(failureOf(own.broken.reason)).to.include({ code: "nats_connection_ended" });
    expect(own.broken.reason).to.have.property("next").that.contains("pistis setup");
    expect(other.broken.aborted).to.equal(false);
    await own.close();
  });
});
