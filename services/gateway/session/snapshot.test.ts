import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { evolve, initialState, messageOf, type Session } from "./session.ts";
import { FOLD_VERSION, gatewayFold } from "./snapshot.ts";

const posted = (messageId: string): PistisEvent => ({
  type: "MessagePosted",
  data: { messageId, text: "Go", delivery: "steer" },
});
const turnId = "trn_1";

/** Every event that the fold heeds, in an order that could happen. */
const life: PistisEvent[] = [
  { type: "SessionCreated", data: { title: "", model: "m", provider: "local" } },
  posted("msg_1"),
  posted("msg_2"),
  posted("msg_3"),
  { type: "MessageWithdrawn", data: { messageId: "msg_2" } },
  { type: "TurnStarted", data: { turnId, epoch: 1, brain: "b", messageIds: ["msg_1"] } },
  { type: "MessagesDelivered", data: { turnId, messageIds: ["msg_3"] } },
  posted("msg_4"),
  { type: "InterruptRequested", data: { turnId } },
  { type: "TurnEnded", data: { turnId, reason: "interrupted" } },
  { type: "SessionEndRequested", data: {} },
  { type: "SessionEnded", data: {} },
];
const textOf = (state: Session) => JSON.stringify(gatewayFold.write(state));
const states = life.map((_, index) => life.slice(0, index + 1).reduce<Session>(evolve, initialState));

describe("the gateway's kept fold", () => {
  it("gives back the same session, wherever it stands", () => {
    for (const state of [initialState, ...states]) {
      expect(gatewayFold.read.parse(JSON.parse(textOf(state)))).to.deep.equal(state);
    }
  });

  it("knows of every message what became of it", () => {
    const kept = gatewayFold.read.parse(JSON.parse(textOf(states.at(-1) ?? initialState)));
    if (kept.status === "absent") throw new Error("The session is absent");
    const found = ["msg_1", "msg_2", "msg_3", "msg_4", "msg_5"].map((id) => messageOf(kept.messages, id)?.status);
    expect(found).to.deep.equal(["delivered", "withdrawn", "delivered", "queued", undefined]);
  });

  it("refuses what is none", () => {
    for (const kept of [null, {}, { status: "idle" }, { status: "idle", messages: [] }]) {
      expect(gatewayFold.read.safeParse(kept).success).to.equal(false);
    }
  });

  it("has another version when the fold makes something else of the same events", () => {
    const next = "The fold has changed: raise FOLD_VERSION, then take over the new digest";
    expect([FOLD_VERSION, sha256(states.map(textOf).join())], next).to.deep.equal([
      1,
      "edd84fe8600baa35c62e74aad641f7c841cb8f49edb4fd45de059e35046d6d89",
    ]);
  });
});
