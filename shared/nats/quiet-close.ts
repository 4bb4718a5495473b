// The client takes all listeners off the socket that it closes. A write that fails in that moment, since the server has
// just gone, then finds none for its error, and the whole process ends in the middle of its orderly stop (nats 2.29.3).
import { Socket } from "node:net";
import type { NatsConnection } from "nats";
import { z } from "zod";

const withSocket = z.object({ protocol: z.object({ transport: z.object({ socket: z.instanceof(Socket) }) }) });

/** The same connection; what its socket says after `close` is heard by nobody. */
export function quietClose(connection: NatsConnection): NatsConnection {
  const close = connection.close.bind(connection);
  connection.close = () => {
    const { data } = withSocket.safeParse(connection);
    if (data !== undefined) keepDeaf(data.protocol.transport.socket);
    return close();
  };
  return connection;
}

function keepDeaf(socket: Socket): void {
  const removeAll = socket.removeAllListeners.bind(socket);
  socket.removeAllListeners = (event) => removeAll(event).on("error", () => undefined);
}
