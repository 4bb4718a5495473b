import { expect } from "chai";
import {
  DATA_BYTES_MAX,
  FRAME_BYTES_MAX,
  Kind,
  STREAM_WINDOW_BYTES,
  writeCreditFrame,
  writeDataFrame,
  writeFrame,
} from "#schemas/wire/frame.ts";
import type { WireRequest } from "#schemas/wire/message.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { silentLog } from "#shared/service/log.ts";
import { type FrameSocket, startSandboxServer } from "#shared/testing/sandbox-peer.ts";
import { type Peer, scriptedSandbox } from "#shared/testing/scripted-sandbox.ts";
import { SandboxBreach } from "./breach.ts";
import type { LinkLimits } from "./limits.ts";
import { command, describeLink, noteOutput } from "./link.contract.ts";
import { SandboxLost } from "./link.ts";
import { openRelayLinks } from "./relay-link.ts";

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no failure",
    (error: unknown) => error,
  );
const json = (content: unknown) => writeFrame(Kind.message, 0, Buffer.from(JSON.stringify(content)));

/** A sandbox that a link reaches without a relay. It can be away, and come back as another one. */
async function setUp(limits: Partial<LinkLimits> = {}, reattachMs = 5_000) {
  const sandbox = scriptedSandbox();
  const world = { online: true, generation: 1 };
  const dials = { count: 0 };
  const server = await startSandboxServer({
    adminKey: "key",
    status: () => ({ ...world, bootId: world.online ? sandbox.bootId : null }),
    onPeer: (socket) => {
      dials.count += 1;
      sandbox.serve(socket, "one");
    },
  });
  const open = openRelayLinks({ relayUrl: server.url, adminKey: "key", reattachMs, log: silentLog, limits });
  const link = open({ sandboxId: "sbx_1", role: "brain", epoch: 7 });
  const cutAll = async (code?: number) => {
    const gone = [...server.peers].map(({ ws, closed }) => {
      if (code === undefined) ws.terminate();
      else ws.close(code);
      return closed;
    });
    await Promise.all(gone);
  };
  const close = async () => {
    await link.close();
    await server.close();
  };
  return { sandbox, world, dials, server, link, cutAll, close };
}

describeLink("directly", async () => {
  const { link, sandbox, world, cutAll, close } = await setUp({ reconnectMsMin: 5, reconnectMsMax: 5 }, 300);
  return {
    link,
    sandbox,
    close,
    cut: async ({ boot = sandbox.bootId, generation = world.generation } = {}) => {
      sandbox.bootId = boot;
      world.generation = generation;
      await cutAll();
    },
    remove: async () => {
      world.online = false;
      await cutAll();
    },
  };
});

describe("a relay link", () => {
  let under: Awaited<ReturnType<typeof setUp>>;
  beforeEach(async () => {
    under = await setUp();
  });
  afterEach(() => under.close());

  it("says hello with its role and epoch before anything else", async () => {
    const { link, sandbox } = under;
    await link.processes();
    expect(sandbox.requests).to.deep.equal([
      { op: "hello", protocol: 1, role: "brain", epoch: 7 },
      { op: "processes" },
    ]);
  });

  for (const code of [1000, 1001, 1006, 1011, 1012, 3000, 4000]) {
    it(`C39: comes back after the socket ended with ${code}`, async () => {
      const { link, dials, cutAll } = under;
      await link.ready(5_000);
      await cutAll(code === 1006 ? undefined : code);
      await link.processes();
      expect(dials.count).to.be.at.least(2);
    });
  }

  it("does not come back by itself after 4001, and fails what waits", async () => {
    const { link, sandbox, dials, cutAll } = under;
    const running = failureOf(link.exec(command("cal_1")));
    await sandbox.asked("exec");
    await cutAll(4001);
    expect(await running)
      .to.be.instanceOf(SandboxLost)
      .and.to.include({ code: "unreachable" });
    expect(dials.count).to.equal(1);
    await link.processes();
    expect(dials.count).to.equal(2);
  });

  it("I4: a stale epoch ends the link for good", async () => {
    const { link, sandbox, cutAll } = under;
    const running = failureOf(link.exec(command("cal_1")));
    await sandbox.asked("exec");
    sandbox.override = (_request, reply) => {
      reply({ failure: { code: "epoch_stale", message: "A newer brain was here" } });
      return true;
    };
    await cutAll();
    for (const failure of [await running, await failureOf(link.processes()), await failureOf(link.ready(1_000))]) {
      expect(failure).to.be.instanceOf(Refusal).and.to.include({ code: "epoch_stale" });
    }
  });

  it("fails at once when the relay does not accept the key", async () => {
    under.server.server.removeAllListeners("upgrade");
    under.server.server.on("upgrade", (_request, socket) =>
      socket.end("HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
    );
    await under.cutAll();
    const failure = await failureOf(under.link.ready(5_000));
    expect(failure).to.be.instanceOf(Fatal).and.to.include({ code: "relay_key_refused" });
  });

  it("C46: waits for an answer no longer than it may take", async () => {
    await under.close();
    under = await setUp({ answerMs: 20 });
    const { link, sandbox } = under;
    sandbox.override = ({ op }) => op !== "hello";
    const short = { ...command("cal_1"), timeoutMs: 1 };
    expect(await failureOf(link.exec(short)))
      .to.be.instanceOf(SandboxLost)
      .and.to.include({ code: "unreachable" });
    expect(await failureOf(link.processes())).to.be.instanceOf(SandboxLost);
    expect(await failureOf(link.readFile("a", 0, 10).info)).to.be.instanceOf(SandboxLost);
  });

  it("C20: finds a relay that fell silent, and goes on over a new connection", async () => {
    await under.close();
    under = await setUp({ silenceMs: 50 });
    const { link, dials } = under;
    await link.ready(5_000);
    while (dials.count < 2) await new Promise((resolve) => setImmediate(resolve));
    await link.processes();
  });

  it("C88: refuses a request that does not fit into a frame, and goes on", async () => {
    const { link, sandbox } = under;
    // Each of these bytes takes six in JSON.
    const failure = await failureOf(link.exec({ ...command("cal_1"), command: "\u0001".repeat(400 * 1024) }));
    expect(failure).to.be.instanceOf(Refusal).and.to.include({ code: "too_large" });
    expect(await link.processes()).to.deep.equal({ processes: [] });
    expect(sandbox.requests.some(({ op }) => op === "exec")).to.equal(false);
  });

  it("takes no more requests than it can hold", async () => {
    await under.close();
    under = await setUp({ requestsMax: 2 });
    const { link, sandbox } = under;
    sandbox.override = ({ op }) => op !== "hello";
    const held = [failureOf(link.processes()), failureOf(link.processes())];
    expect(await failureOf(link.processes())).to.include({ code: "link_busy" });
    await link.close();
    await Promise.all(held);
  });
});

type Attack = (socket: FrameSocket, id: number, stream: number) => void;
const data = (stream: number, position: number, size: number) =>
  writeDataFrame(0, { stream, position, bytes: new Uint8Array(size) });
const result = {
  outcome: { status: "exited", exitCode: 0 },
  ...{ outputBytes: 100, keptBytes: 100, head: "", tail: "", durationMs: 1, leftRunning: false },
};

const attacks: Array<[string, Attack]> = [
  ["an answer of the wrong shape", (socket, id) => socket.send(json({ id, answer: { outcome: "fine" } }))],
  ["an answer without a body", (socket, id) => socket.send(json({ id }))],
  [
    "an answer with more than it should have",
    (socket, id) => socket.send(json({ id, answer: { ...result, extra: 1 } })),
  ],
  ["an answer to a request that never was", (socket) => socket.send(json({ id: 1_000_000, answer: result }))],
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
      socket.send(json({ id, answer: result }));
    },
  ],
];

describe("a link to a hostile sandbox", () => {
  let under: Awaited<ReturnType<typeof setUp>>;
  beforeEach(async () => {
    under = await setUp();
    await under.link.ready(5_000);
  });
  afterEach(() => under.close());

  /** Answers the first request of that kind by hand. Its wire id is its place in the row of requests. */
  function attackOn(op: WireRequest["op"], attack: Attack): void {
    const { sandbox } = under;
    sandbox.override = (request: WireRequest, _reply, { socket }: Peer) => {
      if (request.op !== op) return false;
      sandbox.override = () => false;
      attack(socket, sandbox.requests.length, "stream" in request ? (request.stream ?? 0) : 0);
      return true;
    };
  }

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
      socket.send(json({ id, answer: { ...result, outputBytes: 60, keptBytes: 10 } }));
    });
    const positions: number[] = [];
    await under.link.exec(command("cal_1"), { onOutput: ({ position }) => void positions.push(position) });
    expect(positions).to.deep.equal([0, 50]);
  });

  it("does not grow under a million tiny frames that nobody reads", async () => {
    const { link } = under;
    const tiny = 200_000;
    const held = Promise.withResolvers<void>();
    attackOn("exec", (socket, id, stream) => {
      for (let position = 0; position < tiny; position++) socket.send(data(stream, position, 1));
      socket.send(data(stream, tiny, 0));
      socket.send(json({ id, answer: { ...result, outputBytes: tiny, keptBytes: tiny } }));
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

/** Holds the output of the one attack that counts on nothing being read. */
function blockedOnce(what: string, blocked: Promise<void>): Promise<void> | undefined {
  return what === "more than its credit" ? blocked : undefined;
}

async function drain(bytes: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const chunk of bytes) expect(chunk.byteLength).to.be.above(0);
}
