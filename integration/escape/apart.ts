// A relay, or a server-side peer that takes whatever comes, as a process of its own: for figures, which a relay in the
// process that measures would spoil. It ends with the process that started it.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { WebSocket } from "ws";
import { z } from "zod";
import { SUBPROTOCOL } from "#schemas/wire/frame.ts";
import { relayPaths } from "#schemas/wire/relay-http.ts";
import { adminKey, startRelayForTest } from "#services/relay/tests/relay-under-test.ts";
import { opened, wireOptions } from "#shared/testing/sandbox-peer.ts";

const started = z.object({ url: z.string(), wsUrl: z.string() });

export type RelayApart = z.output<typeof started> & Readonly<{ close: () => Promise<void> }>;

export async function startRelayApart(socketFolder: string): Promise<RelayApart> {
  const child = fork(import.meta.filename, ["relay", socketFolder]);
  const [message] = await once(child, "message");
  return { ...started.parse(message), close: () => ended(child) };
}

export async function attachPeerApart(wsUrl: string, sandboxId: string): Promise<{ close: () => Promise<void> }> {
  const child = fork(import.meta.filename, ["peer", wsUrl, sandboxId]);
  await once(child, "message");
  return { close: () => ended(child) };
}

/** A peer that takes whatever comes. Its channel is 1 when it is the sandbox's first. */
export async function attachPeer(wsUrl: string, sandboxId: string): Promise<WebSocket> {
  const headers = { authorization: `Bearer ${adminKey}` };
  const ws = new WebSocket(wsUrl + relayPaths.attach(sandboxId), [SUBPROTOCOL], { ...wireOptions, headers });
  ws.on("error", () => undefined).on("message", () => undefined);
  await opened(ws);
  return ws;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.disconnect();
  await exited;
}

async function main([kind, where = "", sandboxId = ""]: readonly string[]): Promise<void> {
  if (kind === "peer") {
    await attachPeer(where, sandboxId);
    process.send?.({});
    process.once("disconnect", () => process.exit());
    return;
  }
  const relay = await startRelayForTest({ socketFolder: where });
  process.send?.({ url: relay.url, wsUrl: relay.wsUrl });
  process.once("disconnect", () => relay.close().then(() => process.exit()));
}

if (import.meta.main) await main(process.argv.slice(2));
