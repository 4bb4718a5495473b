import { expect } from "chai";
import type { Ledger } from "#shared/ledger/ledger.ts";
import { World } from "../testing/world.ts";

describe("a steering message that is withdrawn just before its delivery", () => {
  let world: World;
  beforeEach(() => {
    world = new World();
  });
  afterEach(() => world.close());

  /** Posts a message before the first reply is stored, and withdraws it as soon as that is. */
  function withdrawing(ledger: Ledger): Ledger {
    let messageId: string | undefined;
    return {
      read: (...args) => ledger.read(...args),
      append: async (session, expected, events, cause) => {
        if (!events.some(({ type }) => type === "ModelReplied")) {
          return ledger.append(session, expected, events, cause);
        }
        messageId ??= await world.post(session, "> say steered");
        const appended = await ledger.append(session, expected, events, cause);
        await world.append("gateway", session, { type: "MessageWithdrawn", data: { messageId } });
        return appended;
      },
    };
  }

  it("lets the turn end after the reply that it would have followed", async () => {
    await world.startBrain("brain-a", { through: (ledger) => withdrawing(ledger) });
    const session = await world.createSession();
    await world.post(session, "> say done");
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    const types = (await world.events(session)).map(({ type }) => type);
    expect(types.filter((type) => type === "ModelReplied")).to.have.length(1);
    expect(types).to.not.include("MessagesDelivered");
  });
});
