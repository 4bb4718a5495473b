// Ports of the server's own that a sandbox must not reach, open while it is probed: whether somebody came is known here,
// whatever the sandbox says. Nothing is read and nothing is told there.
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import type { OwnPorts } from "./targets.ts";

const HOSTS_MAX = 40;
/** Both families where there are both. */
const EVERYWHERE = ["::", "0.0.0.0"] as const;

export type OpenPorts = OwnPorts &
  Readonly<{
    /** Resolves with how often somebody came. */
    close: () => Promise<number>;
  }>;

export async function openOwnPorts(): Promise<OpenPorts> {
  let heard = 0;
  let closed: Promise<unknown> | undefined;
  const tcp = createServer((socket) => {
    heard += 1;
    socket.on("error", () => undefined).destroy();
  });
  const host = await listenOn(EVERYWHERE, async (address) => {
    tcp.listen(0, address);
    await once(tcp, "listening");
  });
  const udp = createSocket({ type: host === "::" ? "udp6" : "udp4" }, (message, sender) => {
    heard += 1;
    udp.send(message.subarray(0, 1), sender.port, sender.address, () => undefined);
  });
  try {
    udp.bind(0, host);
    await once(udp, "listening");
  } catch (error) {
    tcp.close();
    throw error;
  }
  udp.on("error", () => undefined);
  const address = tcp.address();
  return {
    hosts: ownAddresses(),
    tcp: typeof address === "object" ? (address?.port ?? 0) : 0,
    udp: udp.address().port,
    close: () => {
      closed ??= Promise.all([
        new Promise<void>((resolve) => tcp.close(() => resolve())),
        new Promise<void>((resolve) => udp.close(resolve)),
      ]);
      return closed.then(() => heard);
    },
  };
}

/** The first that this machine has. */
async function listenOn(
  [first, second]: typeof EVERYWHERE,
  listen: (address: string) => Promise<void>,
): Promise<string> {
  try {
    await listen(first);
    return first;
  } catch (error) {
    const withoutIpv6 = ["EAFNOSUPPORT", "EADDRNOTAVAIL", "EINVAL"];
    if (!(error instanceof Error && "code" in error && withoutIpv6.includes(String(error.code)))) throw error;
    await listen(second);
    return second;
  }
}

function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const hosts = all.map(({ address }) => address).filter((address) => !address.startsWith("fe80:"));
  return [...new Set(["127.0.0.1", "::1", ...hosts])].slice(0, HOSTS_MAX);
}
