import { expect } from "chai";
import { FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Kind, readFrame } from "#schemas/wire/frame.ts";
import { type AnswerOf, toServer, type WireRequest } from "#schemas/wire/message.ts";
import { silentLog } from "#shared/service/log.ts";
import type { Outlet } from "../relay/outlet.ts";
import { Channel } from "./channel.ts";
import { openEpochFence } from "./epoch-fence.ts";
import type { Operations } from "./operation.ts";

const unasked = () => Promise.reject(new Error("Nobody asks for this"));
const others: Omit<Operations, "processes"> = {
  exec: unasked,
  attach: unasked,
  stop: unasked,
  signal: unasked,
  outputRead: unasked,
  fileRead: unasked,
  fileWrite: unasked,
  fileEdit: unasked,
  fileList: unasked,
  fileSearch: unasked,
  probe: unasked,
};

/** What the peer of a channel is sent as the answer to `processes`. */
async function answerWith(processes: AnswerOf<"processes">["processes"]) {
  const sent: Array<(frame: Uint8Array) => void> = [];
  const outlet: Outlet = {
    send: (frame) => sent.shift()?.(frame),
    isFull: () => false,
    hasRoom: async () => undefined,
  };
  const operations: Operations = { ...others, processes: async () => ({ processes }) };
  const fence = openEpochFence({ epoch: () => 1, keepEpoch: () => undefined });
  const channel = new Channel(7, { outlet, operations, fence, bootId: "boot", version: "1", log: silentLog });
  const ask = (id: number, request: WireRequest) =>
    new Promise<Uint8Array>((resolve) => {
      sent.push(resolve);
      channel.onMessage(Buffer.from(JSON.stringify({ id, request })));
    });
  await ask(1, { op: "hello", protocol: 1, role: "service" });
  const frame = await ask(2, { op: "processes" });
  expect(frame.byteLength).to.be.at.most(FRAME_BYTES_MAX);
  const { kind, channel: number, payload } = readFrame(frame);
  expect([kind, number]).to.deep.equal([Kind.message, 7]);
  return toServer.parse(JSON.parse(Buffer.from(payload).toString()));
}

const running = { callId: "cal_1", running: true, outputBytes: 0, startedAt: "" };

describe("an answer", () => {
  it("is sent when it just fits into a frame, and is a failure when it does not", async () => {
    const around = await answerWith([{ ...running, command: "" }]);
    const room = FRAME_BYTES_MAX - FRAME_HEADER_BYTES - JSON.stringify(around).length;
    expect(await answerWith([{ ...running, command: "x".repeat(room) }])).to.have.property("answer");
    const refused = await answerWith([{ ...running, command: "x".repeat(room + 1) }]);
    expect(refused).to.have.property("id", 2);
    expect(refused).to.have.nested.property("failure.code", "too_large");
    expect(refused).to.have.nested.property("failure.next");
  });
});
