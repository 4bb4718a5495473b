import { expect } from "chai";
import { newId, sha256 } from "#shared/ids/ids.ts";
import { causeOf, expectFatal, failureFrom, missing, posted, textsOf, versionOf } from "#shared/testing/messages.ts";
import type { LedgerUnderTest } from "./ledger.contract.ts";
import { type Ledger, NEW_SESSION, VersionConflict } from "./ledger.ts";

export function describeAppend(current: () => LedgerUnderTest): void {
  let gateway: Ledger;
  let session: string;
  beforeEach(() => {
    gateway = current().open("gateway");
    session = newId("session");
  });

  it("reads an unknown session as empty, at the version that its first append expects", async () => {
    expect(await gateway.read(session)).to.deep.equal({ messages: [], version: NEW_SESSION });
  });

  it("returns what was appended, in order, with who wrote it and why", async () => {
    const cause = { correlationId: newId("message"), causationId: newId("event") };
    const first = await gateway.append(session, NEW_SESSION, [posted("a"), posted("b")], cause);
    const second = await gateway.append(session, versionOf(first), [posted("c")], causeOf(session));
    const { messages, version } = await gateway.read(session);
    expect(messages).to.deep.equal([first, second]);
    expect(textsOf(messages)).to.deep.equal(["a", "b", "c"]);
    expect(first).to.include({ session, writer: "gateway", ...cause });
    expect(version).to.deep.equal(versionOf(second));
  });

  it("reads only what follows a version, and the version itself when nothing does", async () => {
    const first = await gateway.append(session, NEW_SESSION, [posted("a")], causeOf(session));
    const second = await gateway.append(session, versionOf(first), [posted("b")], causeOf(session));
    expect(textsOf((await gateway.read(session, versionOf(first))).messages)).to.deep.equal(["b"]);
    expect(await gateway.read(session, versionOf(second))).to.deep.equal({ messages: [], version: versionOf(second) });
  });

  it("keeps two sessions apart whose appends take turns", async () => {
    const other = newId("session");
    const a1 = await gateway.append(session, NEW_SESSION, [posted("a1")], causeOf(session));
    const b1 = await gateway.append(other, NEW_SESSION, [posted("b1")], causeOf(other));
    const a2 = await gateway.append(session, versionOf(a1), [posted("a2")], causeOf(session));
    const b2 = await gateway.append(other, versionOf(b1), [posted("b2")], causeOf(other));
    expect((await gateway.read(session)).messages).to.deep.equal([a1, a2]);
    expect((await gateway.read(other)).messages).to.deep.equal([b1, b2]);
  });

  it("refuses an append from a stale version and stores nothing of it", async () => {
    const first = await gateway.append(session, NEW_SESSION, [posted("a")], causeOf(session));
    await expectError(VersionConflict, () => gateway.append(session, NEW_SESSION, [posted("x")], causeOf(session)));
    const beyond = { sequence: first.sequence + 1, hash: first.hash };
    await expectError(VersionConflict, () => gateway.append(session, beyond, [posted("x")], causeOf(session)));
    expect((await gateway.read(session)).messages).to.deep.equal([first]);
  });

  it("lets one of many appends from the same version win", async () => {
    const tries = Array.from({ length: 10 }, (_, index) =>
      gateway.append(session, NEW_SESSION, [posted(`${index}`)], causeOf(session)).catch((error: unknown) => error),
    );
    const lost = (await Promise.all(tries)).filter((end) => end instanceof VersionConflict);
    expect(lost).to.have.length(9);
    expect((await gateway.read(session)).messages).to.have.length(1);
  });

  it("chains each message of a session to the one before it by hash", async () => {
    const first = await gateway.append(session, NEW_SESSION, [posted("a")], causeOf(session));
    const scheduler = current().open("scheduler");
    const second = await scheduler.append(session, versionOf(first), [missing()], causeOf(session));
    expect(first.prev).to.equal("");
    expect(second.prev).to.equal(first.hash);
    for (const message of (await gateway.read(session)).messages) {
      expect(message.hash).to.equal(sha256(message.bytes));
    }
  });

  it("refuses an event of another writer and what no schema fits, and stores nothing of it", async () => {
    const mixed = [posted("a"), missing()];
    await expectFatal("foreign_event", () => gateway.append(session, NEW_SESSION, mixed, causeOf(session)));
    await expectFatal("event_invalid", () => gateway.append(session, NEW_SESSION, [posted("")], causeOf(session)));
    await expectFatal("event_invalid", () => gateway.append(session, NEW_SESSION, [], causeOf(session)));
    await expectFatal("event_invalid", () => gateway.append("no id", NEW_SESSION, [posted("a")], causeOf(session)));
    expect((await gateway.read(session)).messages).to.deep.equal([]);
  });

  it("keeps events of any size up to a blob, byte for byte", async () => {
    const texts = ["x".repeat(256 * 1024), `\u0000"\\\ud800 é 💡${"é".repeat(200_000)}`, "small"];
    let version = NEW_SESSION;
    for (const text of texts)
      version = versionOf(await gateway.append(session, version, [posted(text)], causeOf(session)));
    const { messages } = await gateway.read(session);
    expect(textsOf(messages).map(sha256)).to.deep.equal(texts.map(sha256));
    for (const { bytes } of messages) expect(bytes.byteLength).to.be.at.most(256 * 1024);
  });
}

async function expectError(type: typeof VersionConflict, act: () => Promise<unknown>): Promise<void> {
  expect(await failureFrom(act)).to.be.instanceOf(type);
}
