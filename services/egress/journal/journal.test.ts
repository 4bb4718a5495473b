import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { silentLog } from "#shared/service/log.ts";
import { type EgressReport, type Entry, openJournal } from "./journal.ts";

const client = { sandboxId: "sbx_1", generation: 1 };
const request = { host: "a.example", port: 443, via: "connect" as const };

describe("the journal of requests", () => {
  function open(eventsPerMinuteMax: number) {
    const reports: EgressReport[] = [];
    const send = async (_id: string, report: EgressReport) => void reports.push(report);
    const journal = openJournal({
      send,
      eventsPerMinuteMax,
      reportMs: 1,
      now: () => performance.now(),
      log: silentLog,
    });
    return { journal, reports };
  }

  async function untilTold(entry: Entry): Promise<void> {
    while (!entry.told) await setImmediate();
  }

  it("tells a long connection when it begins and when it ends", async () => {
    const { journal, reports } = open(10);
    const entry = journal.begin(client, request);
    journal.opened(entry, () => ({ up: 6, down: 7 }));
    await untilTold(entry);
    journal.end(entry, "ended");
    await journal.close();
    const told = reports.flatMap(({ requests }) => requests.map(({ reason, bytesUp }) => [reason, bytesUp]));
    expect(told).to.deep.equal([
      ["open", 6],
      ["ended", 6],
    ]);
  });

  it("counts a long connection once, with its bytes, when there is no room to tell of it", async () => {
    const { journal, reports } = open(0);
    const entry = journal.begin(client, request);
    journal.opened(entry, () => ({ up: 6, down: 7 }));
    await untilTold(entry);
    journal.end(entry, "ended");
    await journal.close();
    expect(reports.map(({ requests, untold }) => [requests, untold])).to.deep.equal([
      [[], { allowed: 1, refused: 0, bytesUp: 6, bytesDown: 7 }],
    ]);
  });

  it("tells at its close what is still open", async () => {
    const { journal, reports } = open(10);
    journal.opened(journal.begin(client, request), () => ({ up: 1, down: 2 }));
    await journal.close();
    expect(reports.at(-1)?.requests.at(-1)).to.include({ reason: "ended", bytesUp: 1, bytesDown: 2 });
  });
});
