// Connections that have shown no valid key or pass. Whoever opens them without end pushes out its own oldest ones, not those
// that are at work: an upgrade takes a connection out for good, and a request for as long as it is answered, because a join
// waits for the disk.
import type { Server } from "node:http";
import type { Socket } from "node:net";

/** Answers how to take one out that has proven itself. */
export function boundUnproven(server: Server, max: number): (socket: Socket) => void {
  const unproven = new Set<Socket>();
  server.on("connection", (socket) => {
    unproven.add(socket);
    socket.once("close", () => unproven.delete(socket));
    const [oldest] = unproven;
    if (unproven.size > max) oldest?.destroy();
  });
  server.on("request", ({ socket }, response) => {
    unproven.delete(socket);
    response.once("close", () => {
      if (!socket.destroyed) unproven.add(socket);
    });
  });
  return (socket) => unproven.delete(socket);
}
