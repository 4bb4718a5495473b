import { expect } from "chai";
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { eventLines } from "./event-line.ts";

const plain = (_style: string, text: string) => text;

function lines(...events: PistisEvent[]): string[] {
  const envelope = {
    sequence: 42,
    id: "evt_1",
    session: "ses_1",
    at: "2026-01-01T00:00:00.000Z",
    writer: "brain" as const,
  };
  const message: LedgerMessageView = {
    ...envelope,
    correlationId: "ses_1",
    causationId: null,
    hash: "",
    prev: "",
    events,
  };
  return eventLines(message, plain);
}

describe("the ledger as lines", () => {
  it("has sequence, time, session, writer, event and facts, one line per event", () => {
    const ended: PistisEvent = { type: "TurnEnded", data: { turnId: "trn_1", reason: "completed" } };
    const needed: PistisEvent = { type: "SandboxNeeded", data: { turnId: "trn_1", reason: "absent" } };
    expect(lines(ended, needed)).to.deep.equal([
      "    42  2026-01-01T00:00:00.000Z  ses_1  brain      TurnEnded                 completed",
      "    42  2026-01-01T00:00:00.000Z  ses_1  brain      SandboxNeeded             turnId=trn_1 reason=absent",
    ]);
  });

  it("S60: tells of a request to the network whereto, whether it was allowed and why, and how much went", () => {
    const about = {
      sandboxId: "sbx_1",
      generation: 1,
      batch: "evt_1",
      host: "a.example",
      port: 443,
      via: "connect" as const,
    };
    const ended = { allowed: true, reason: "ended" as const, bytesUp: 100, bytesDown: 2_048, durationMs: 1_500 };
    const [line = ""] = lines({ type: "EgressLogged", data: { ...about, ...ended } });
    expect(line).to.match(/EgressLogged +connect a\.example:443 allowed ended 100 B up 2\S* \S*B down 1\.5 s$/);
  });

  it("stays one line whatever a message or a command holds", () => {
    const text = `first\nsecond \u001b[2J${"x".repeat(1_000)}`;
    const [line = ""] = lines({ type: "MessagePosted", data: { messageId: "msg_1", text, delivery: "steer" } });
    expect(line).to.contain("first second ␛[2J").and.not.contain("\n").and.not.contain("\u001b");
    expect(line.length).to.be.lessThan(260);
  });
});
