// The bus or the database goes away while a turn runs, and comes back. Seconds stand for minutes here: what decides is
// that no client gives up meanwhile, which shared/nats/for-ever.test.ts holds on to.
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { z } from "zod";
import { createSession } from "#services/cli/client/api.ts";
import { type AwayInstall, type Outage, openAwayInstall } from "./testing/away-install.ts";
import { type FollowedSession, followTestSession } from "./testing/running-install.ts";

const looseObject = z.record(z.string(), z.unknown());

/** A command that counts its own runs, prints for some seconds, and says on the disk when it is over. */
const COUNTING =
  "echo run >> /workspace/runs; for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.5; done; touch /workspace/over-$(wc -l < /workspace/runs)";

describe("while the bus or the database is away", function () {
  this.timeout(120_000);
  let install: AwayInstall;
  const followed: FollowedSession[] = [];
  beforeEach(async () => {
    install = await openAwayInstall();
  });
  afterEach(async () => {
    await Promise.all(followed.splice(0).map((session) => session.close()));
    await install.close();
  });

  async function api(method: "GET" | "POST", path: string, body?: object) {
    const { url, token } = install.server;
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const response = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: looseObject.parse(await response.json()) };
  }

  async function newSession() {
    const { session } = await createSession(install.server, {});
    return follow(session.id);
  }

  async function follow(id: string): Promise<FollowedSession> {
    const session = await followTestSession(install.server, id);
    followed.push(session);
    return session;
  }

  /** Resolves when a file of this name is in some sandbox. */
  async function onSandboxDisk(name: string): Promise<void> {
    for (;;) {
      const files = await readdir(join(install.statePath, "sandboxes"), { recursive: true }).catch(() => []);
      if (files.some((file) => file.endsWith(`/${name}`))) return;
      await setImmediate();
    }
  }

  async function expectWhole() {
    const { faults, lost, messages, mirrored } = await install.verify();
    expect({ faults, lost }).to.deep.equal({ faults: [], lost: [] });
    expect(mirrored).to.equal(messages);
  }

  async function turnThrough(away: (outage: Outage) => Promise<void>, back: (outage: Outage) => Promise<void>) {
    const session = await newSession();
    await session.post(`$ ${COUNTING}\n$ cat /workspace/runs`);
    await session.liveOutput((text) => text.includes("tick 2"));
    await away(install.nats);
    const later = { text: "later", messageId: "msg_refused", delivery: "queue" };
    const path = `/v1/sessions/${session.id}/messages`;
    const refused = await api("POST", path, later);
    expect(refused.status).to.equal(503);
    expect(refused.body).to.include({ code: "ledger_unavailable" });
    expect(refused.body["next"]).to.contain("nats-server");
    await onSandboxDisk("over-1");
    await back(install.nats);
    await session.event("TurnEnded");
    expect((await session.event("TurnEnded")).reason).to.equal("completed");
    const [first, second] = session.seen("ToolDone");
    expect(first?.text).to.contain("tick 1").and.to.contain("tick 6");
    expect(second?.text).to.match(/^run\n\[Exit code 0/);
    expect(session.seen("ToolStarted")).to.have.length(2);
    // Sent again under its id, the message is there once, whatever became of the first try.
    const again = await api("POST", path, later);
    expect(again.status).to.equal(201);
    expect((await session.event("TurnEnded", 2)).reason).to.equal("completed");
    expect(session.seen("MessagePosted").filter(({ messageId }) => messageId === "msg_refused")).to.have.length(1);
    await expectWhole();
  }

  it("C140: NATS is killed: commands go on, requests get a typed 503, and the turn goes on after", () =>
    turnThrough(
      (nats) => nats.kill(),
      (nats) => nats.start(),
    ));

  it("C140: NATS hangs: commands go on, requests get a typed 503, and the turn goes on after", () =>
    turnThrough(
      async (nats) => nats.hang(),
      async (nats) => nats.resume(),
    ));

  async function turnsWithout(away: (outage: Outage) => Promise<void>, back: (outage: Outage) => Promise<void>) {
    const warm = await newSession();
    await warm.post("$ echo before");
    await warm.event("TurnEnded");
    await away(install.postgres);
    await warm.post("$ echo during >> /workspace/file");
    expect((await warm.event("TurnEnded", 2)).reason).to.equal("completed");
    const fresh = await newSession();
    await fresh.post("$ echo new");
    expect((await fresh.event("TurnEnded")).reason).to.equal("completed");
    const late = await follow(warm.id);
    await late.event("TurnEnded", 2);
    const list = await api("GET", "/v1/sessions");
    expect(list.status).to.equal(503);
    expect(list.body).to.include({ code: "database_unavailable" });
    expect((await api("GET", `/v1/sessions/${warm.id}`)).body["counts"]).to.include({ turns: 2 });
    await back(install.postgres);
    await expectWhole();
    await fresh.post("$ echo after");
    expect((await fresh.event("TurnEnded", 2)).reason).to.equal("completed");
    await expectWhole();
    const { body } = await api("GET", "/v1/sessions");
    expect(body["sessions"]).to.have.length(2);
  }

  it("C140: PostgreSQL is killed: turns and streams go on, and the mirror catches up after", () =>
    turnsWithout(
      (postgres) => postgres.kill(),
      (postgres) => postgres.start(),
    ));

  it("C140: PostgreSQL hangs: turns and streams go on, and the mirror catches up after", () =>
    turnsWithout(
      async (postgres) => postgres.hang(),
      async (postgres) => postgres.resume(),
    ));
});
