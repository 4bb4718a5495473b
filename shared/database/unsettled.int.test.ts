import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { type Database, openDatabase } from "./database.ts";
import { migrate } from "./migrate.ts";
import type { StoredOverview } from "./sessions.ts";
import { unsettledSessions } from "./unsettled.ts";
import { writeBatch } from "./write-batch.ts";

const LONG_AGO = "2026-01-01T00:00:00.000Z";
const created: PistisEvent = { type: "SessionCreated", data: { title: "", model: "m", provider: "local" } };
const posted: PistisEvent = { type: "MessagePosted", data: { messageId: "msg_1", text: "Go", delivery: "queue" } };
const started: PistisEvent = {
  type: "TurnStarted",
  data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: ["msg_0"] },
};
const stopped: PistisEvent = { type: "InterruptRequested", data: { turnId: "trn_1" } };
const ended: PistisEvent = { type: "TurnEnded", data: { turnId: "trn_1", reason: "interrupted" } };

describe("sessions that want a brain", () => {
  let server: Awaited<ReturnType<typeof testDatabase>>;
  let database: Database;

  before(async () => {
    server = await testDatabase();
    database = await openDatabase(server.url);
    await migrate(database);
  });
  after(async () => {
    await database.close();
    await server.close();
  });

  function overview(id: string, at: string, ...events: PistisEvent[]): StoredOverview {
    const session = evolveOverview(undefined, { session: id, at, sequence: 1, events: [created, ...events] });
    if (session === undefined) throw new Error("Not created");
    return { session, version: { sequence: 1, hash: "" } };
  }

  it("are those with an open turn, and those whose messages nobody takes up, but not those held by Stop", async () => {
    const now = new Date().toISOString();
    const overviews = [
      overview("ses_idle", LONG_AGO),
      overview("ses_open", now, started),
      overview("ses_forgotten", LONG_AGO, posted),
      overview("ses_just_posted", now, posted),
      overview("ses_stopped", LONG_AGO, started, posted, stopped, ended),
      overview("ses_spoken_to_again", LONG_AGO, started, stopped, ended, posted),
      overview("ses_over", LONG_AGO, posted, { type: "SessionEnded", data: {} }),
    ];
    await writeBatch(database.pool, { messages: [], overviews, marks: [] });
    const found = (await unsettledSessions(database)).sort();
    expect(found).to.deep.equal(["ses_forgotten", "ses_open", "ses_spoken_to_again"]);
  });
});
