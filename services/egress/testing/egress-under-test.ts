// The egress service with stand-ins for relay, scheduler, name server and internet.
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EgressGreeting, GREETING_TAKEN } from "#schemas/network/egress-pipe.ts";
import type { EgressRequest } from "#schemas/network/egress-request.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { newId, newSecret } from "#shared/ids/ids.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { type EgressDependencies, startEgress } from "../egress.ts";
import type { EgressReport } from "../journal/journal.ts";
import { type NameServer, startNameServer } from "./name-server.ts";

export const LOOPBACK = ["127.0.0.1/32"];

export type EgressUnderTest = Awaited<ReturnType<typeof startEgressForTest>>;

export async function startEgressForTest(options: {
  names: Parameters<typeof startNameServer>[0];
  changes?: Partial<EgressDependencies>;
  limits?: EgressDependencies["limits"];
}) {
  const resources = new Resources();
  const folder = await mkdtemp(join(tmpdir(), "pistis-egress-"));
  resources.add("folder", folder, () => rm(folder, { recursive: true, force: true }));
  const nameServer: NameServer = resources.add("names", await startNameServer(options.names), (it) => it.close());
  const key = newSecret();
  const path = join(folder, "egress", "pipe.sock");
  const networks = new Map<string, SandboxNetwork>();
  const reports: EgressReport[] = [];
  let told = Promise.withResolvers<void>();
  const egress = await startEgress({
    address: { path },
    key,
    askNetwork: async ({ sandboxId, generation }) => networks.get(`${sandboxId} ${generation}`),
    report: async (_id, report) => {
      reports.push(report);
      told.resolve();
      told = Promise.withResolvers();
    },
    nameServers: [nameServer.address],
    testAddresses: LOOPBACK,
    limits: { reportMs: 20, ...options.limits },
    log: silentLog,
    ...options.changes,
  });
  resources.add("egress", egress, (it) => it.close());

  const entries = () => reports.flatMap(({ requests }) => requests);
  return {
    resources,
    nameServer,
    path,
    key,
    reports,
    entries,
    /** A sandbox with this network. */
    sandbox: (network: SandboxNetwork, generation = 1) => {
      const client = { sandboxId: newId("sandbox"), generation };
      networks.set(`${client.sandboxId} ${generation}`, network);
      return client;
    },
    /** A connection of the sandbox, as the relay pipes it. */
    pipe: (client: { sandboxId: string; generation: number }, changes: Partial<EgressGreeting> = {}) =>
      pipe(path, { key, ...client, ...changes }),
    /** Resolves with the first entry that fits. */
    entry: async (fits: (entry: EgressRequest) => boolean): Promise<EgressRequest> => {
      for (;;) {
        const found = entries().find(fits);
        if (found !== undefined) return found;
        await told.promise;
      }
    },
    /** Resolves when the reports fit. */
    reported: async (fits: (reports: readonly EgressReport[]) => boolean): Promise<void> => {
      while (!fits(reports)) await told.promise;
    },
    close: () => resources.close(),
  };
}

async function pipe(path: string, greeting: EgressGreeting): Promise<Socket> {
  const socket = connect({ path, allowHalfOpen: true });
  socket.on("error", () => undefined);
  socket.write(`${JSON.stringify(greeting)}\n`);
  const [answer] = (await Promise.race([once(socket, "data"), once(socket, "end")])) as [Buffer | undefined];
  if (answer?.toString().startsWith(GREETING_TAKEN) !== true) throw new Error("The connection was not taken");
  const rest = answer.subarray(GREETING_TAKEN.length);
  if (rest.byteLength === 0) return socket;
  socket.pause();
  socket.unshift(rest);
  return socket;
}

/** All that comes until the other side ends. */
export async function textOf(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(Buffer.from(chunk as Buffer));
  return Buffer.concat(chunks).toString();
}

/** Sends a CONNECT; resolves with the status and the reason that the service gives. */
export async function connectTo(
  socket: Socket,
  authority: string,
): Promise<{ status: number; reason: string | undefined }> {
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\n\r\n`);
  const [head] = (await once(socket, "data")) as [Buffer];
  const text = head.toString();
  return { status: Number(text.split(" ")[1]), reason: /x-pistis-reason: (\w+)/.exec(text)?.[1] };
}

/** Sends what is written here as it is and resolves with the whole answer; the service closes after it. */
export async function ask(socket: Socket, ...lines: string[]): Promise<{ status: number; text: string }> {
  socket.write(lines.join("\r\n"));
  const text = await textOf(socket);
  socket.destroy();
  return { status: Number(text.split(" ")[1]), text };
}
