import { expect } from "chai";
import { STREAM_WINDOW_BYTES, writeCreditFrame } from "#schemas/wire/frame.ts";
import type { WireRequest } from "#schemas/wire/message.ts";
import { SandboxLost } from "./link.ts";
import {
  type Attack,
  answerByHand,
  command,
  data,
  drain,
  failureOf,
  finished,
  json,
  MIB,
  noteOutput,
  setUp,
} from "./link-under-test.ts";

describe("a sandbox that will not come to an end", () => {
  let under: Awaited<ReturnType<typeof setUp>>;
  const short = { ...command("cal_1"), timeoutMs: 1 };
  let drip: NodeJS.Timeout | undefined;
  beforeEach(async () => {
    // The relay of this test does not ping, so the link would find its silence at last.
    const limits = { answerMs: 300, outputRestMs: 600, bytesPerSecondMin: 100 * MIB, silenceMs: 3_600_000 };
    under = await setUp({ ...limits, reconnectMsMin: 1, reconnectMsMax: 1 }, 300);
  });
  afterEach(async () => {
    clearInterval(drip);
    drip = undefined;
    await under.close();
  });
  const attackOn = (op: WireRequest["op"], attack: Attack) => answerByHand(under.sandbox, op, attack);

  it("is given up also when it is cut off before each answer", async () => {
    const { link, sandbox } = under;
    sandbox.override = ({ op }, _reply, { socket }) => {
      if (op === "hello") return false;
      socket.ws.terminate();
      return true;
    };
    const targets = [{ kind: "tcp" as const, host: "192.0.2.1", port: 1 }];
    const lost: Array<Promise<unknown>> = [
      link.exec(short),
      link.probe({ targets, timeoutMs: 50 }),
      link.readFile("f", 0, 10).info,
    ];
    for (const failure of await Promise.all(lost.map(failureOf))) expect(failure).to.be.instanceOf(SandboxLost);
  });

  it("has its command's result taken without the rest of an output that drips", async () => {
    attackOn("exec", (socket, id, stream) => {
      socket.send(json({ id, answer: { ...finished, outputBytes: 1_000, keptBytes: 1_000 } }));
      let position = 0;
      drip = setInterval(() => socket.send(data(stream, position++, 1)), 20);
    });
    const output = noteOutput();
    expect(await under.link.exec(short, output)).to.include({ outputBytes: 1_000 });
    expect(output.bytes().byteLength).to.be.above(0);
  });

  it("is given up when a file comes from it byte by byte", async () => {
    attackOn("fileRead", (socket, id, stream) => {
      socket.send(json({ id, answer: { size: 1_000, from: 0, length: 1_000, mode: 0o644 } }));
      let position = 0;
      drip = setInterval(() => socket.send(data(stream, position++, 1)), 20);
    });
    expect(await failureOf(drain(under.link.readFile("f", 0, 1_000).bytes))).to.be.instanceOf(SandboxLost);
  });

  it("is given up when it takes a file byte by byte", async () => {
    attackOn("fileWrite", (socket, _id, stream) => {
      let taken = 0;
      socket.ws.on("message", (frame: Buffer) => {
        taken += frame.byteLength;
        if (taken < STREAM_WINDOW_BYTES) return;
        drip ??= setInterval(() => socket.send(writeCreditFrame(0, stream, 1)), 5);
      });
    });
    const size = 2 * STREAM_WINDOW_BYTES;
    const writing = under.link.writeFile({ callId: "cal_1", path: "f", size }, [
      new Uint8Array(size - 1),
      new Uint8Array(1),
    ]);
    expect(await failureOf(writing)).to.be.instanceOf(SandboxLost);
  });
});
