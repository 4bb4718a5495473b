import { expect } from "chai";
import { pathTo } from "#schemas/api/paths.ts";
import { createdSession } from "#schemas/api/session.ts";
import type { Ledger } from "#shared/ledger/ledger.ts";
import { connectSse } from "./testing/sse-client.ts";
import { openWorld, type World } from "./testing/world.ts";

describe("a warm session", () => {
  let world: World;

  beforeEach(async () => {
    world = await openWorld();
  });

  afterEach(() => world.close());

  it("takes a message with one append and no read, also after others wrote into it", async () => {
    const asked: string[] = [];
    const gateway = await world.gateway({ ledger: watched(world.ledger.open("gateway"), asked) });
    const { json } = await gateway.call("POST", pathTo("sessions", {}), { message: { text: "one" } });
    const { session, messageId } = createdSession.parse(json);
    const post = () => gateway.call("POST", pathTo("messages", { sessionId: session.id }), { text: "more" });
    await post();
    const follower = await connectSse(`${gateway.url}${pathTo("installStream", {})}`);
    await follower.comment();
    await world.write(session.id, "brain", {
      type: "TurnStarted",
      data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: [messageId ?? ""] },
    });
    await follower.next();
    follower.close();
    asked.length = 0;
    expect((await post()).status).to.equal(201);
    expect(asked).to.deep.equal(["append"]);
  });

  it("is decided again on the newest state when another writer was first", async () => {
    const asked: string[] = [];
    const deaf = await world.gateway({ ledger: watched(world.ledger.open("gateway"), asked), feed: silentFeed() });
    const { json } = await deaf.call("POST", pathTo("sessions", {}), { message: { text: "one" } });
    const { session, messageId } = createdSession.parse(json);
    await world.write(session.id, "brain", {
      type: "TurnStarted",
      data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: [messageId ?? ""] },
    });
    asked.length = 0;
    const withdrawn = await deaf.call(
      "DELETE",
      pathTo("message", { sessionId: session.id, messageId: messageId ?? "" }),
    );
    expect(withdrawn.status).to.equal(409);
    expect(asked).to.deep.equal(["append", "read"]);
  });

  it("is not refused by what the gateway remembers wrongly", async () => {
    const deaf = await world.gateway({ feed: silentFeed() });
    const { json } = await deaf.call("POST", pathTo("sessions", {}), { message: { text: "one" } });
    const { session, messageId } = createdSession.parse(json);
    await world.write(session.id, "brain", {
      type: "TurnStarted",
      data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: [messageId ?? ""] },
    });
    const stopped = await deaf.call("POST", pathTo("interrupt", { sessionId: session.id }));
    expect(stopped.status).to.equal(202);
  });
});

function watched(ledger: Ledger, asked: string[]): Ledger {
  return {
    read: (...request) => {
      asked.push("read");
      return ledger.read(...request);
    },
    append: (...request) => {
      asked.push("append");
      return ledger.append(...request);
    },
  };
}

/** Brings nothing: the gateway's folds stay as they are. */
function silentFeed() {
  return {
    follow: async function* ({ signal }: { signal: AbortSignal }) {
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
    react: () => expect.fail("The gateway has no durable consumer"),
  };
}
