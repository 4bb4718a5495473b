// What one sandbox can do to the others and to the ledger by asking too much.
import type { Socket } from "node:net";
import { expect } from "chai";
import { ask, connectTo, type EgressUnderTest, startEgressForTest, textOf } from "../testing/egress-under-test.ts";
import { startHttp, startTcp } from "../testing/stand-ins.ts";

/** Connections that flood at once. */
const LOOPS = 4;

describe("a sandbox that floods the egress service", () => {
  let egress: EgressUnderTest;
  afterEach(() => egress.close());

  it("has so many connections and no more, and with them no more than its share of turns", async () => {
    egress = await startEgressForTest({
      names: { "allowed.example": ["127.0.0.1"] },
      limits: { connectionsPerSandboxMax: 20 },
    });
    const server = await startHttp(egress.resources);
    const host = `allowed.example:${server.port}`;
    const [bad, good] = [egress.sandbox({ mode: "none" }), egress.sandbox({ mode: "allow", allow: [host] })];
    const held = await Promise.all(Array.from({ length: 20 }, () => egress.pipe(bad)));
    expect(await textOf(await egress.pipe(bad))).to.contain("too_many_connections");
    const flooding = new AbortController();
    for (const socket of held.slice(0, LOOPS)) socket.destroy();
    const floods = Array.from({ length: LOOPS }, () => flood(() => egress.pipe(bad), flooding.signal));
    for (let turn = 0; turn < 30; turn++) {
      const head = [`GET http://${host}/ HTTP/1.1`, `host: ${host}`, "connection: close"];
      expect(await ask(await egress.pipe(good), ...head, "", "")).to.include({ status: 200 });
    }
    flooding.abort();
    const answered = (await Promise.all(floods)).reduce((sum, count) => sum + count, 0);
    // A request that goes through takes a few more turns than one that is refused.
    expect(answered).to.be.lessThan(30 * LOOPS * 8);
  });

  it("cannot flood the ledger, and nothing that it asked for is lost from the count", async () => {
    egress = await startEgressForTest({ names: {}, limits: { eventsPerMinuteMax: 10 } });
    const bad = egress.sandbox({ mode: "none" });
    const good = egress.sandbox({ mode: "none" }, 3);
    for (let turn = 0; turn < 100; turn++) await connectTo(await egress.pipe(bad), `host-${turn}.example:443`);
    await connectTo(await egress.pipe(good), "other.example:443");
    await egress.entry(({ host }) => host === "other.example");
    await egress.close();
    const of = (sandboxId: string) => egress.reports.filter((report) => report.sandboxId === sandboxId);
    const told = of(bad.sandboxId).flatMap(({ requests }) => requests);
    const untold = of(bad.sandboxId).flatMap((report) => report.untold ?? []);
    expect(told.map(({ host }) => host)).to.deep.equal(Array.from({ length: 10 }, (_, turn) => `host-${turn}.example`));
    expect(untold).to.deep.equal([{ allowed: 0, refused: 90, bytesUp: 0, bytesDown: 0 }]);
    expect(of(good.sandboxId)).to.have.length(1);
    const batches = egress.reports.map(({ batch }) => batch);
    expect(new Set(batches).size).to.equal(batches.length);
  });

  it("is told of while a connection goes on, and again at its end", async () => {
    egress = await startEgressForTest({ names: { "allowed.example": ["127.0.0.1"] } });
    const server = await startTcp(egress.resources, (socket) => socket.pipe(socket));
    const client = egress.sandbox({ mode: "allow", allow: [`allowed.example:${server.port}`] });
    const socket = await egress.pipe(client);
    await connectTo(socket, `allowed.example:${server.port}`);
    socket.write("\x01hello");
    expect(await egress.entry(({ reason }) => reason === "open")).to.include({ allowed: true });
    socket.end();
    expect(await egress.entry(({ reason }) => reason === "ended")).to.include({ bytesUp: 6, bytesDown: 6 });
  });

  it("loses no entry while nobody takes reports", async () => {
    let failures = 3;
    const taken: number[] = [];
    egress = await startEgressForTest({
      names: {},
      changes: {
        report: async (_id, report) => {
          if (failures-- > 0) throw new Error("away");
          taken.push(report.requests.length);
        },
      },
    });
    await connectTo(await egress.pipe(egress.sandbox({ mode: "none" })), "a.example:443");
    await egress.close();
    expect(taken).to.deep.equal([1]);
    expect(failures).to.be.lessThan(0);
  });
});

/** Request after request, each on a connection of its own, as each is refused. Resolves with how many were answered. */
async function flood(open: () => Promise<Socket>, signal: AbortSignal): Promise<number> {
  let answered = 0;
  while (!signal.aborted) {
    const socket = await open();
    socket.write("GET http://blocked.example/ HTTP/1.1\r\nhost: blocked.example\r\n\r\n");
    await textOf(socket);
    socket.destroy();
    answered += 1;
  }
  return answered;
}
