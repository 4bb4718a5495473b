import { expect } from "chai";
import { memoryLedger } from "#shared/ledger/memory.ts";
import { SessionRecord } from "../session/record.ts";
import { WarmRecords } from "./warm-records.ts";

describe("folds of idle sessions", () => {
  const ledger = memoryLedger().open("brain");
  let now = 0;
  const open = () =>
    new WarmRecords((session) => new SessionRecord(ledger, session), { warmMs: 100, sessionsMax: 3, now: () => now });
  const nobody = () => false;

  it("are the same while they are used, and forgotten when they were not for long", () => {
    const records = open();
    const first = records.use("ses_1");
    now += 60;
    expect(records.use("ses_1")).to.equal(first);
    records.use("ses_2");
    now += 90;
    records.use("ses_2");
    now += 20;
    records.sweep(nobody);
    expect(records.known("ses_1")).to.equal(undefined);
    expect(records.size).to.equal(1);
  });

  it("are kept while somebody works on them", () => {
    const records = open();
    records.use("ses_1");
    now += 1_000;
    records.sweep((session) => session === "ses_1");
    expect(records.size).to.equal(1);
  });

  it("are limited in number: those unused for longest go first", () => {
    const records = open();
    for (const session of ["ses_1", "ses_2", "ses_3", "ses_4", "ses_1"]) records.use(session);
    records.sweep(nobody);
    expect(["ses_1", "ses_2", "ses_3", "ses_4"].filter((session) => records.known(session))).to.deep.equal([
      "ses_1",
      "ses_3",
      "ses_4",
    ]);
  });
});
