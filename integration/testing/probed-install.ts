// Runs in a network namespace of a test's own, beside servers that stand in for what a sandbox must not reach: starts an
// install, gives it one command, and prints what came of it as JSON. Documentation addresses only; nothing leaves.
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { startNameServer } from "#services/egress/testing/name-server.ts";
import { type ConfigFile, openTestInstall, openTestSession } from "./running-install.ts";

export const STAND_INS = {
  outside: "192.0.2.1:443",
  metadata: "169.254.169.254:80",
  private: "198.51.100.1:5432",
  nameServer: "192.0.2.53",
  gateway: "198.51.100.1",
  gatewayPort: 22,
  allowed: "allowed.test",
} as const;

async function listen(address: string): Promise<void> {
  const [host = "", port] = address.split(":");
  const tcp = createServer((socket) => void socket.on("error", () => undefined).end("here\n"));
  tcp.listen(Number(port), host).unref();
  await once(tcp, "listening");
}

async function echo(host: string, port: number): Promise<void> {
  const udp = createSocket("udp4", (message, sender) => udp.send(message, sender.port, sender.address));
  udp.bind(port, host).unref();
  await once(udp, "listening");
}

/** The allowed host is the outside server, under a name that only the name server here knows. */
async function allowing(): Promise<ConfigFile> {
  const names = await startNameServer({ [STAND_INS.allowed]: ["192.0.2.1"] });
  return {
    sandboxes: { allow: [STAND_INS.allowed] },
    egress: { nameServers: [names.address], testAddresses: ["192.0.2.0/24"] },
  };
}

async function main(): Promise<void> {
  const { outside, metadata, nameServer, gateway, gatewayPort } = STAND_INS;
  const [host = "", port] = outside.split(":");
  await Promise.all([
    ...[outside, metadata, STAND_INS.private, `${gateway}:${gatewayPort}`].map(listen),
    ...[echo(host, Number(port)), echo(nameServer, 53)],
  ]);
  const probe = { outside: [outside], metadata: [metadata], private: [STAND_INS.private], nameServers: [nameServer] };
  const network = process.argv.includes("allow") ? await allowing() : {};
  const sandboxes = { ...network.sandboxes, probe: { ...probe, hostPorts: [gatewayPort] } };
  const install = await openTestInstall({ ...network, sandboxes });
  const session = await openTestSession(install.server);
  await session.post("$ echo ran");
  const ended = await session.event("TurnEnded");
  const result = {
    ended,
    probed: session.seen("EgressProbed"),
    types: session.messages.flatMap(({ events }) => events.map(({ type }) => type)),
  };
  await session.close();
  await install.close();
  process.stdout.write(JSON.stringify(result), () => process.exit());
}

if (import.meta.main) await main();
