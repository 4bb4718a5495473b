import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect } from "chai";
import { type NetworkCut, openNetworkCut } from "./network-cut.ts";

describe("a stretch of network that can fail", () => {
  let cut: NetworkCut;
  let port: number;
  const server = createServer((socket) => socket.on("error", () => socket.destroy()).pipe(socket));
  const sockets: Socket[] = [];

  beforeEach(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    port = (server.address() as AddressInfo).port;
    cut = await openNetworkCut(port);
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await cut.close();
    server.close();
    await once(server, "close");
  });

  function start(): Socket {
    const socket = connect(cut.port, "127.0.0.1");
    sockets.push(socket);
    return socket.on("error", () => socket.destroy());
  }

  /** `once` would reject for the error that comes before. */
  function closed(socket: Socket): Promise<void> {
    return new Promise((resolve) => socket.once("close", () => resolve()));
  }

  async function dial(): Promise<Socket> {
    const socket = start();
    await once(socket, "connect");
    return socket;
  }

  async function echo(socket: Socket, text: string): Promise<string> {
    socket.write(text);
    const [bytes] = await once(socket, "data");
    return String(bytes);
  }

  it("passes on what is sent while it is whole", async () => {
    expect(await echo(await dial(), "hello")).to.equal("hello");
  });

  it("breaks what is open and refuses what is new when it is dropped, until it is mended", async () => {
    const open = await dial();
    expect(await echo(open, "one")).to.equal("one");
    const broken = closed(open);
    cut.drop();
    await broken;
    await closed(start());
    cut.mend();
    expect(await echo(await dial(), "two")).to.equal("two");
  });

  it("says nothing and closes nothing while it is frozen, and breaks what was open when it is mended", async () => {
    const open = await dial();
    expect(await echo(open, "one")).to.equal("one");
    let heard = 0;
    open.on("data", () => heard++);
    cut.freeze();
    open.write("two");
    const other = await dial();
    other.write("three");
    const broken = closed(open);
    cut.mend();
    await broken;
    expect(heard).to.equal(0);
  });
});
