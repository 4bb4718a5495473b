import { expect } from "chai";
import { z } from "zod";
import { MESSAGE_BYTES_MAX } from "#schemas/ledger/envelope.ts";
import { BLOB_BYTES_MAX } from "#shared/blobs/blobs.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId, sha256 } from "#shared/ids/ids.ts";
import { causeOf, expectFatal, missing, posted } from "#shared/testing/messages.ts";
import { decodeMessage, encodeMessage, eventTypes } from "./codec.ts";
import { NEW_SESSION } from "./ledger.ts";

const session = newId("session");
const json = z.record(z.string(), z.unknown());

describe("ledger message", () => {
  const blobs = memoryBlobs();

  it("is the same after encoding and decoding", async () => {
    const encoded = await encode([posted("a"), posted("b")]);
    expect(await decodeMessage({ sequence: 7, bytes: encoded.bytes }, blobs)).to.deep.equal({
      ...encoded,
      sequence: 7,
    });
    expect(encoded.hash).to.equal(sha256(encoded.bytes));
  });

  it("keeps its trace parent, though nobody is given it", async () => {
    const cause = { ...causeOf(session), traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
    const request = { session, expected: NEW_SESSION, events: [posted("a")], cause };
    const { bytes } = await encodeMessage("gateway", request, blobs);
    expect(parsed(bytes)).to.include({ traceparent: cause.traceparent });
    expect(await decodeMessage({ sequence: 1, bytes }, blobs)).not.to.have.property("traceparent");
  });

  it("names its event types once each", () => {
    expect(eventTypes({ events: [posted("a"), posted("b"), missing()] })).to.equal("MessagePosted,SandboxMissing");
  });

  it("stays inside the limit by one byte, and goes to a blob by one byte", async () => {
    const overhead = (await encode([posted("x")])).bytes.byteLength - 1;
    const fits = await encode([posted("x".repeat(MESSAGE_BYTES_MAX - overhead))]);
    expect(fits.bytes.byteLength).to.equal(MESSAGE_BYTES_MAX);
    const tooLong = await encode([posted("x".repeat(MESSAGE_BYTES_MAX - overhead + 1))]);
    expect(tooLong.bytes.byteLength).to.be.lessThan(10_000);
  });

  it("whose events are in a blob shows people how they begin and end", async () => {
    const { bytes } = await encode([posted(`begin${"x".repeat(300_000)}end`)]);
    const { head, tail, bytes: size } = json.parse(parsed(bytes)["events"]);
    expect(head).to.be.a("string").that.includes("begin");
    expect(tail).to.be.a("string").that.includes("end");
    expect(size).to.be.greaterThan(300_000);
  });

  it("C85: above the limit of a blob is refused by name", async () => {
    const events = Array.from({ length: 1 + Math.ceil(BLOB_BYTES_MAX / 1_000_000) }, () =>
      posted("x".repeat(1_000_000)),
    );
    await expectFatal("message_too_large", () => encode(events));
  });

  it("whose blob is gone is not read as if it were whole", async () => {
    const { bytes } = await encode([posted("x".repeat(300_000))]);
    await expectFatal("blob_missing", () => decodeMessage({ sequence: 1, bytes }, memoryBlobs()));
  });

  it("that is no envelope is refused as unreadable", async () => {
    const whole = (await encode([posted("a")])).bytes;
    const cut = whole.subarray(0, whole.byteLength - 1);
    const notUtf8 = Uint8Array.of(0x22, 0xff, 0x22);
    for (const bytes of [cut, notUtf8, new Uint8Array(), bytesOf({}), bytesOf(null), edited(whole, { extra: 1 })]) {
      await expectFatal("message_unreadable", () => decodeMessage({ sequence: 1, bytes }, blobs));
    }
  });

  it("of a newer version is told apart from an invalid one", async () => {
    const { bytes } = await encode([posted("a")]);
    const withEvent = (event: object) => edited(bytes, { events: [event] });
    const [known] = z.array(json).parse(parsed(bytes)["events"]);
    const cases = [
      ["event_unknown", withEvent({ ...known, version: 2 })],
      ["event_unknown", withEvent({ ...known, type: "MessageShouted" })],
      ["event_invalid", withEvent({ ...known, data: {} })],
    ] as const;
    for (const [code, bytes] of cases) await expectFatal(code, () => decodeMessage({ sequence: 1, bytes }, blobs));
  });

  it("that claims another writer's events is refused", async () => {
    const { bytes } = await encode([posted("a")]);
    const forged = edited(bytes, { writer: "brain" });
    await expectFatal("foreign_event", () => decodeMessage({ sequence: 1, bytes: forged }, blobs));
  });

  function encode(events: ReturnType<typeof posted>[]) {
    return encodeMessage("gateway", { session, expected: NEW_SESSION, events, cause: causeOf(session) }, blobs);
  }
});

function parsed(bytes: Uint8Array) {
  return json.parse(JSON.parse(new TextDecoder().decode(bytes)));
}

function bytesOf(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function edited(bytes: Uint8Array, change: object): Uint8Array {
  return bytesOf({ ...parsed(bytes), ...change });
}
