import { expect } from "chai";
import { SessionRecord } from "../session/record.ts";
import { startedTurn } from "../testing/session-fixture.ts";
import { World } from "../testing/world.ts";
import { Abandoned } from "./context.ts";
import { Workplace } from "./workplace.ts";

const COMMITS_MAX = 10;

/** Asking without end lets no timer run, that of a test's own limit included. */
class BoundedRecord extends SessionRecord {
  commits = 0;
  override commit(...command: Parameters<SessionRecord["commit"]>) {
    this.commits++;
    if (this.commits > COMMITS_MAX) throw new Error("It asks without end");
    return super.commit(...command);
  }
}

describe("a sandbox that has to be asked for", () => {
  let world: World;
  beforeEach(() => {
    world = new World({ schedules: false });
  });
  afterEach(() => world.close());

  async function openTurn() {
    const session = await world.createSession();
    await world.append("brain", session, startedTurn(1, await world.post(session, "Go on")));
    const record = new BoundedRecord(world.ledger.open("brain"), session);
    await record.catchUp();
    const halt = new AbortController();
    const workplace = new Workplace({
      record,
      epoch: 1,
      openLink: world.openLink,
      config: world.config,
      warm: undefined,
      signal: halt.signal,
      onWait: () => undefined,
      onNotRaised: () => undefined,
      onLeftover: () => undefined,
    });
    const prepared = () => workplace.prepare().catch((error: unknown) => error);
    return { session, record, halt, prepared };
  }

  it("C63: is not asked for once Stop was heard", async () => {
    const { session, record, halt, prepared } = await openTurn();
    await world.interrupt(session);
    await record.catchUp();
    halt.abort(new Abandoned("Stop"));
    expect(await prepared()).to.equal(halt.signal.reason);
    expect(record.commits).to.equal(0);
  });

  it("C63: is not asked for when a Stop is stored first, which is heard by the conflict", async () => {
    const { session, record, halt, prepared } = await openTurn();
    record.watch(() => halt.abort(new Abandoned("Stop")));
    await world.interrupt(session);
    expect(await prepared()).to.equal(halt.signal.reason);
    expect(record.commits).to.equal(1);
  });

  it("is asked for once when asking decides nothing and no signal says why", async () => {
    const { session, record, prepared } = await openTurn();
    await world.interrupt(session);
    await record.catchUp();
    expect(await prepared()).to.include({ code: "sandbox_not_asked" });
    expect(record.commits).to.equal(1);
  });
});
