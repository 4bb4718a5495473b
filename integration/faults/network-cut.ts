// A stretch of network that can fail: a TCP proxy on the loopback address. Dropped, it breaks what is open and refuses
// what is new; frozen, it passes nothing on and tells nobody, like a cable that was pulled.
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

export type NetworkCut = Readonly<{
  port: number;
  drop: () => void;
  freeze: () => void;
  mend: () => void;
  close: () => Promise<void>;
}>;

type Way = { state: "whole" | "dropped" | "frozen"; pairs: Set<readonly [Socket, Socket]> };

/** Listens on a port of its own and connects to `target` of this machine. */
export async function openNetworkCut(target: number): Promise<NetworkCut> {
  const way: Way = { state: "whole", pairs: new Set() };
  const server = createServer({ noDelay: true }, (near) => join(way, near, target));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: portOf(server),
    drop: () => {
      way.state = "dropped";
      for (const pair of way.pairs) breakPair(pair);
    },
    freeze: () => {
      way.state = "frozen";
      for (const sockets of way.pairs) for (const socket of sockets) socket.pause();
    },
    mend: () => {
      // What was frozen is broken at last: no kernel keeps a connection for ever that nobody answers.
      if (way.state === "frozen") for (const pair of way.pairs) breakPair(pair);
      way.state = "whole";
    },
    close: async () => {
      for (const pair of way.pairs) breakPair(pair);
      server.close();
      await once(server, "close");
    },
  };
}

function join(way: Way, near: Socket, target: number): void {
  near.on("error", () => near.destroy());
  if (way.state === "dropped") {
    near.resetAndDestroy();
    return;
  }
  const far = connect({ port: target, host: "127.0.0.1", noDelay: true });
  const pair = [near, far] as const;
  way.pairs.add(pair);
  far.on("error", () => far.destroy());
  for (const socket of pair) {
    socket.once("close", () => {
      way.pairs.delete(pair);
      breakPair(pair);
    });
  }
  pass(near, far);
  pass(far, near);
  if (way.state === "frozen") for (const socket of pair) socket.pause();
}

/** By hand: `pipe` would resume what a cut has paused. */
function pass(from: Socket, to: Socket): void {
  from.on("data", (bytes) => void to.write(bytes));
  from.on("end", () => to.end());
}

function breakPair(pair: readonly [Socket, Socket]): void {
  for (const socket of pair) socket.destroy();
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The proxy has no port");
  return address.port;
}
