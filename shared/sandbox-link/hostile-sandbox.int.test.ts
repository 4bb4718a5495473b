import { expect } from "chai";
import {
  DATA_BYTES_MAX,
  FRAME_BYTES_MAX,
  Kind,
  STREAM_WINDOW_BYTES,
  writeCreditFrame,
  writeFrame,
} from "#schemas/wire/frame.ts";
import type { WireRequest } from "#schemas/wire/message.ts";
import { SandboxBreach } from "./breach.ts";
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
  noteOutput,
  setUp,
} from "./link-under-test.ts";

/** Far more than the kernel's own buffers hold. */
const FILE_BYTES = 64 * STREAM_WINDOW_BYTES;

const attacks: Array<[string, Attack]> = [
  ["an answer of the wrong shape", (socket, id) => socket.send(json({ id, answer: { outcome: "fine" } }))],
  ["an answer without a body", (socket, id) => socket.send(json({ id }))],
  [
    "an answer with more than it should have",
    (socket, id) => socket.send(json({ id, answer: { ...finished, extra: 1 } })),
  ],
  ["an answer to a request that never was", (socket) => socket.send(json({ id: 1_000_000, answer: finished }))],
  ["a message that is not JSON", (socket) => socket.send(writeFrame(Kind.message, 0, Buffer.from("{")))],
  ["a message of no bytes", (socket) => socket.send(writeFrame(Kind.message, 0, new Uint8Array(0)))],
  [
    "JSON as deep as a frame is long",
    (socket) => socket.send(writeFrame(Kind.message, 0, Buffer.from("[".repeat(FRAME_BYTES_MAX - 5)))),
  ],
  [
    "a failure with a text without end",
    (socket, id) => socket.send(json({ id, failure: { code: "x", message: "x".repeat(9_000) } })),
  ],
  ["a frame of an unknown kind", (socket) => socket.send(Buffer.from([99, 0, 0, 0, 0]))],
  ["a frame without a header", (socket) => socket.send(Buffer.from([1]))],
  ["a status that is none", (socket) => socket.send(writeFrame(Kind.status, 0, Buffer.from('{"online":"yes"}')))],
  ["data without a header", (socket) => socket.send(writeFrame(Kind.data, 0, new Uint8Array(3)))],
  ["data for a stream that never was", (socket) => socket.send(data(1_000_000, 0, 10))],
  ["credit for a stream that never was", (socket) => socket.send(writeCreditFrame(0, 1_000_000, 10))],
  [
    "a position again",
    (socket, _id, stream) => {
      socket.send(data(stream, 0, 10));
      socket.send(data(stream, 5, 10));
    },
  ],
  [
    "bytes after the end",
    (socket, _id, stream) => {
      socket.send(data(stream, 0, 0));
      socket.send(data(stream, 0, 10));
    },
  ],
  [
    "more than its credit",
    (socket, _id, stream) => {
      const frames = STREAM_WINDOW_BYTES / DATA_BYTES_MAX + 1;
      for (let n = 0; n < frames; n++) socket.send(data(stream, n * DATA_BYTES_MAX, DATA_BYTES_MAX));
    },
  ],
  [
    "a gap in an output that is kept whole",
    (socket, id, stream) => {
      socket.send(data(stream, 10, 10));
      socket.send(json({ id, answer: finished }));
    },
  ],
  [
    "an end in the answer beyond bytes that are kept and were not sent",
    (socket, id) => socket.send(json({ id, answer: { ...finished, streamEnd: 20 } })),
  ],
];

describe("a link to a hostile sandbox", () => {
  let under: Awaited<ReturnType<typeof setUp>>;
  beforeEach(async () => {
    under = await setUp();
    await under.link.ready(5_000);
  });
  afterEach(() => under.close());

  const attackOn = (op: WireRequest["op"], attack: Attack) => answerByHand(under.sandbox, op, attack);

  for (const [what, attack] of attacks) {
    it(`survives ${what}: the channel is closed and the outcome is unknown`, async () => {
      const { link, server } = under;
      const [socket] = server.peers;
      attackOn("exec", attack);
      const blocked = new Promise<void>(() => undefined);
      const failure = await failureOf(link.exec(command("cal_1"), { onOutput: () => blockedOnce(what, blocked) }));
      expect(failure, String(failure)).to.be.instanceOf(SandboxLost);
      await socket?.closed;
      expect(await link.processes()).to.deep.equal({ processes: [] });
    });
  }

  it("refuses more bytes of a file than it asked for, and another part than it asked for", async () => {
    const { link } = under;
    const info = { size: 1_000, from: 10, length: 20, mode: 0o644 };
    const lies: Array<[object, Array<[number, number]>]> = [
      [{ ...info, length: 21 }, []],
      [{ ...info, from: 11 }, []],
      [info, [[10, 21]]],
      [info, [[11, 5]]],
      [
        info,
        [
          [10, 20],
          [30, 1],
        ],
      ],
    ];
    for (const [answer, frames] of lies) {
      attackOn("fileRead", (socket, id, stream) => {
        socket.send(json({ id, answer }));
        for (const [position, size] of frames) socket.send(data(stream, position, size));
      });
      const failure = await failureOf(drain(link.readFile("f", 10, 20).bytes));
      expect(failure).to.be.instanceOf(SandboxLost).and.to.have.property("cause").that.is.instanceOf(SandboxBreach);
      await link.ready(5_000);
    }
  });

  for (const [what, bytes] of [
    ["more credit than it can have taken", 1],
    ["no credit", 0],
  ] as const) {
    it(`closes the channel of one that grants a file ${what}`, async () => {
      const { link } = under;
      attackOn("fileWrite", (socket, _id, stream) => socket.send(writeCreditFrame(0, stream, bytes)));
      const content = Promise.withResolvers<Uint8Array>();
      const writing = failureOf(link.writeFile({ callId: "cal_1", path: "f", size: 10 }, once(content.promise)));
      await under.server.peers.values().next().value?.closed;
      content.resolve(new Uint8Array(10));
      expect(await writing)
        .to.be.instanceOf(SandboxLost)
        .and.to.have.property("cause")
        .that.is.instanceOf(SandboxBreach);
    });
  }

  it("holds no more than a window of a file for one that grants credit and takes nothing", async () => {
    await under.close();
    under = await setUp({ answerMs: 1_000 });
    const { link } = under;
    const granting = Promise.withResolvers<() => void>();
    attackOn("fileWrite", (socket, _id, stream) => {
      socket.ws.pause();
      granting.resolve(() => socket.send(writeCreditFrame(0, stream, STREAM_WINDOW_BYTES)));
    });
    let given = 0;
    async function* content() {
      for (; given < FILE_BYTES; given += STREAM_WINDOW_BYTES) {
        if (given > 0) (await granting.promise)();
        yield new Uint8Array(STREAM_WINDOW_BYTES);
      }
    }
    const request = { callId: "cal_1", path: "f", size: FILE_BYTES };
    expect(await failureOf(link.writeFile(request, content()))).to.be.instanceOf(SandboxLost);
    expect(given).to.be.below(FILE_BYTES / 2);
  });

  it("says that a file changed when it ends before what was announced", async () => {
    attackOn("fileRead", (socket, id, stream) => {
      socket.send(json({ id, answer: { size: 1_000, from: 0, length: 20, mode: 0o644 } }));
      socket.send(data(stream, 0, 10));
      socket.send(data(stream, 10, 0));
    });
    expect(await failureOf(drain(under.link.readFile("f", 0, 20).bytes))).to.include({ code: "changed_while_read" });
  });

  it("lets an output leave out what pistisd did not keep", async () => {
    attackOn("exec", (socket, id, stream) => {
      socket.send(data(stream, 0, 10));
      socket.send(data(stream, 50, 10));
      socket.send(data(stream, 60, 0));
      socket.send(json({ id, answer: { ...finished, outputBytes: 60, keptBytes: 10 } }));
    });
    const positions: number[] = [];
    await under.link.exec(command("cal_1"), { onOutput: ({ position }) => void positions.push(position) });
    expect(positions).to.deep.equal([0, 50]);
  });

  it("copies tiny frames together that nobody reads yet", async () => {
    const { link } = under;
    const tiny = 200_000;
    const held = Promise.withResolvers<void>();
    attackOn("exec", (socket, id, stream) => {
      for (let position = 0; position < tiny; position++) socket.send(data(stream, position, 1));
      socket.send(data(stream, tiny, 0));
      socket.send(json({ id, answer: { ...finished, outputBytes: tiny, keptBytes: tiny } }));
    });
    let chunks = 0;
    const output = noteOutput();
    await link.exec(command("cal_1"), {
      onOutput: (chunk) => {
        chunks += 1;
        output.onOutput(chunk);
        if (chunks > 1) return undefined;
        // The rest arrives while this one is held.
        void link.processes().then(() => held.resolve());
        return held.promise;
      },
    });
    expect(output.bytes().byteLength).to.equal(tiny);
    expect(chunks).to.be.below(100);
  });

  it("ends a link that is flooded with frames that belong to nothing", async () => {
    const { link, server, sandbox } = under;
    const [socket] = server.peers;
    await link.processes();
    sandbox.override = () => false;
    for (let n = 0; n < 10_100; n++) socket?.send(json({ id: 1, answer: null }));
    await socket?.closed;
    expect(await link.processes()).to.deep.equal({ processes: [] });
  });
});

async function* once(content: Promise<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield await content;
}

/** Holds the output of the one attack that counts on nothing being read. */
function blockedOnce(what: string, blocked: Promise<void>): Promise<void> | undefined {
  return what === "more than its credit" ? blocked : undefined;
}
