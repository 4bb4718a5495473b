import { Socket } from "node:net";
import { expect } from "chai";
import { z } from "zod";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";

const inside = z.object({ protocol: z.object({ transport: z.object({ socket: z.instanceof(Socket) }) }) });

describe("a connection to NATS", () => {
  let nats: TestNats;

  before(async () => {
    nats = await startTestNats();
  });
  after(() => nats.close());

  it("C140: closes also in the moment in which the server is lost, and throws nothing at the process", async () => {
    const thrown: unknown[] = [];
    const connection = await nats.connect("gateway");
    const { socket } = inside.parse(connection).protocol.transport;
    const listeners = process.rawListeners("uncaughtException");
    process.removeAllListeners("uncaughtException").on("uncaughtException", (error) => thrown.push(error));
    try {
      socket.end();
      connection.flush().catch(() => undefined);
      await connection.close();
      while (!socket.closed) await new Promise(setImmediate);
    } finally {
      process.removeAllListeners("uncaughtException");
      for (const listener of listeners) process.on("uncaughtException", (error) => listener(error));
    }
    expect(thrown).to.deep.equal([]);
  });
});
