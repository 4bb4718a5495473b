import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

// Below the range from which the kernel takes ports for connections: a server that is down must find its own again.
const FIRST = 20_000;
const LAST = 32_000;
const ATTEMPTS_MAX = 100;

/** A free port of the loopback address that stays free while its server is down. */
export async function stablePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const port = randomInt(FIRST, LAST);
    if (await isFree(port)) return port;
  }
  throw new Error("No port was free");
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const listening = once(server, "listening").then(
    () => true,
    () => false,
  );
  server.listen(port, "127.0.0.1");
  if (!(await listening)) return false;
  server.close();
  await once(server, "close");
  return true;
}
