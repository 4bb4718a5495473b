import { expect } from "chai";
import type { LiveMessage } from "#schemas/live/live.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import type { NatsConnection } from "./connection.ts";
import { openLivePublisher, openLiveSubscriber } from "./live.ts";

const delta = (text: string, replyId = "rpl_1"): LiveMessage => ({
  kind: "text-delta",
  epoch: 1,
  number: 0,
  turnId: "trn_1",
  replyId,
  text,
});

describe("live traffic over NATS", () => {
  let nats: TestNats;
  let brain: NatsConnection;
  let gateway: NatsConnection;
  before(async () => {
    nats = await startTestNats();
    brain = await nats.connect("brain");
    gateway = await nats.connect("gateway");
  });
  after(() => nats.close());

  it("reaches who listens to the session, gathered and numbered", async () => {
    const publisher = openLivePublisher({ nats: brain });
    const [one, all] = [collect(1), collect(2)];
    const stop = [listen("ses_1", one.add), listen("*", all.add)];
    await gateway.flush();
    publisher.publish("ses_1", delta("a"));
    publisher.publish("ses_1", delta("b"));
    publisher.publish("ses_2", delta("c"));
    expect(await one.done).to.deep.equal([["ses_1", delta("ab")]]);
    expect(await all.done).to.have.deep.members([
      ["ses_1", delta("ab")],
      ["ses_2", delta("c")],
    ]);
    for (const end of stop) end();
    await publisher.close();
  });

  it("is sent to its end when the publisher closes", async () => {
    const publisher = openLivePublisher({ nats: brain });
    const seen = collect(1);
    const stop = listen("ses_3", seen.add);
    await gateway.flush();
    publisher.publish("ses_3", delta("last words"));
    await publisher.close();
    expect(await seen.done).to.deep.equal([["ses_3", delta("last words")]]);
    stop();
  });

  it("does not keep a stop from ending when the server takes nothing", async () => {
    const hanging: NatsConnection = Object.create(brain);
    hanging.flush = () => new Promise(() => undefined);
    const publisher = openLivePublisher({ nats: hanging });
    publisher.publish("ses_3", delta("last words"));
    await publisher.close();
  });

  it("ends for a listener that unsubscribes, and what does not fit the schema never reaches one", async () => {
    const publisher = openLivePublisher({ nats: brain });
    const first = collect(1);
    const stopFirst = listen("ses_4", first.add);
    await gateway.flush();
    for (const nonsense of ["", "{", '{"kind":"text-delta"}', "null"]) brain.publish("live.ses_4.text-delta", nonsense);
    publisher.publish("ses_4", delta("good"));
    expect(await first.done).to.deep.equal([["ses_4", delta("good")]]);
    stopFirst();
    const second = collect(1);
    const stopSecond = listen("ses_4", second.add);
    await gateway.flush();
    publisher.publish("ses_4", delta("more", "rpl_2"));
    await second.done;
    expect(first.count()).to.equal(1);
    stopSecond();
    await publisher.close();
  });

  it("never waits for anyone: what is published without a connection is dropped", async () => {
    const lonely = await nats.connect("brain");
    const publisher = openLivePublisher({ nats: lonely });
    await lonely.close();
    for (let index = 0; index < 10_000; index++) publisher.publish("ses_5", delta("x".repeat(1_000)));
    await publisher.close();
  });

  function listen(session: string, add: (entry: [string, LiveMessage]) => void): () => void {
    return openLiveSubscriber({ nats: gateway }).subscribe(session, (from, message) => add([from, message]));
  }
});

/** `done` resolves with all entries when there are that many. */
function collect(wanted: number) {
  const entries: [string, LiveMessage][] = [];
  const done = Promise.withResolvers<[string, LiveMessage][]>();
  return {
    done: done.promise,
    count: () => entries.length,
    add: (entry: [string, LiveMessage]) => {
      entries.push(entry);
      if (entries.length >= wanted) done.resolve(entries);
    },
  };
}
