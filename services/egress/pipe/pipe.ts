// Where the relay hands over what a sandbox sends: a Unix socket or a port. Each connection begins with one line that
// names the sandbox; who does not know the key is cut off before a byte of it is read by anything else.
import { timingSafeEqual } from "node:crypto";
import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import {
  type EgressAddress,
  egressGreeting,
  GREETING_BYTES_MAX,
  GREETING_TAKEN,
} from "#schemas/network/egress-pipe.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";

/** One life of one sandbox, as the relay knows it by its pass. */
export type Client = Readonly<{ sandboxId: string; generation: number }>;

export type PipeSettings = Readonly<{
  address: EgressAddress;
  /** `PISTIS_EGRESS_KEY` */
  key: string;
  greetingMs: number;
  connectionsMax: number;
  /** A sandbox's connection; what it sends is not trusted. */
  onConnection: (socket: Socket, client: Client) => void;
  log: Log;
}>;

export type Pipe = Readonly<{ close: () => Promise<void> }>;

const KEY_LENGTH_MIN = 16;
const LINE_END = 0x0a;

/** Resolves when it listens. Throws Fatal for a key or address that cannot be used. */
export async function openPipe(settings: PipeSettings): Promise<Pipe> {
  const { address, key } = settings;
  if (key.length < KEY_LENGTH_MIN) throw weakKey();
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    socket.on("error", (error) => settings.log.debug({ reason: error.message }, "A connection failed"));
    greet(settings, socket);
  });
  server.maxConnections = settings.connectionsMax;
  await listen(server, address);
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}

function weakKey(): Fatal {
  return new Fatal("egress_key_weak", `The egress service's key has less than ${KEY_LENGTH_MIN} characters`, {
    next: "Set PISTIS_EGRESS_KEY of relay and egress service to the same long random text.",
  });
}

async function listen(server: Server, address: EgressAddress): Promise<void> {
  // The folder is its owner's alone, so that only the relay's user finds the socket.
  if ("path" in address) {
    await mkdir(dirname(address.path), { recursive: true, mode: 0o700 });
    await rm(address.path, { force: true });
  }
  await new Promise<void>((resolve, reject) => {
    const failed = (cause: Error) =>
      reject(
        new Fatal("egress_cannot_listen", `The egress service cannot listen: ${cause.message}`, {
          cause,
          next: "Choose another PISTIS_EGRESS_URL, or stop what already listens there.",
        }),
      );
    server.once("error", failed);
    server.listen(address, () => {
      server.off("error", failed);
      resolve();
    });
  });
  if ("path" in address) await chmod(address.path, 0o600);
}

/** The relay sends nothing after its line until it has the answer, so whatever comes early is no relay. */
function greet(settings: PipeSettings, socket: Socket): void {
  let received = Buffer.alloc(0);
  const deadline = setTimeout(() => socket.destroy(), settings.greetingMs);
  socket.once("close", () => clearTimeout(deadline));
  const onData = (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    const end = received.indexOf(LINE_END);
    if (end < 0 && received.byteLength <= GREETING_BYTES_MAX) return;
    clearTimeout(deadline);
    socket.off("data", onData);
    const client = end === received.byteLength - 1 ? clientIn(received, settings.key) : undefined;
    if (client === undefined) {
      settings.log.warn({}, "Refused a connection that is not the relay's: is PISTIS_EGRESS_KEY the same in both?");
      socket.destroy();
      return;
    }
    socket.write(GREETING_TAKEN);
    settings.onConnection(socket, client);
  };
  socket.on("data", onData);
}

function clientIn(line: Buffer, key: string): Client | undefined {
  try {
    const greeting = egressGreeting.safeParse(JSON.parse(line.toString()));
    if (!greeting.success || !isSame(greeting.data.key, key)) return undefined;
    const { sandboxId, generation } = greeting.data;
    return { sandboxId, generation };
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Takes the same time wherever the two differ. */
function isSame(one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(sha256(one)), Buffer.from(sha256(other)));
}
