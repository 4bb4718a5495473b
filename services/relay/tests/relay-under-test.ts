// A relay on free ports with what its tests need to talk to it.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { joined, relayPaths } from "#schemas/wire/relay-http.ts";
import { newId, newSecret, sha256 } from "#shared/ids/ids.ts";
import { openRelayLinks } from "#shared/sandbox-link/relay-link.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { connectSandbox, type FrameSocket } from "#shared/testing/sandbox-peer.ts";
import { socketPath } from "../http/sandbox-sockets.ts";
import type { JoinReport } from "../join-reports.ts";
import { type RelayDependencies, startRelay } from "../relay.ts";

export const adminKey = "the-admin-key-of-the-relay-tests";

export type RelayUnderTest = Awaited<ReturnType<typeof startRelayForTest>>;

export async function startRelayForTest(changes: Partial<RelayDependencies> = {}) {
  const resources = new Resources();
  const folder = await mkdtemp(join(tmpdir(), "pistis-relay-"));
  resources.add("folder", folder, (path) => rm(path, { recursive: true, force: true }));
  const reports: JoinReport[] = [];
  const settings: RelayDependencies = {
    host: "127.0.0.1",
    port: 0,
    socketFolder: join(folder, "sockets"),
    adminKey,
    stateFile: join(folder, "relay.json"),
    reportJoined: async (report) => void reports.push(report),
    log: silentLog,
    ...changes,
  };
  let relay = await startRelay(settings);
  const port = Number(new URL(relay.url).port);
  resources.add("relay", undefined, () => relay.close());
  return {
    url: relay.url,
    connect: () => relay.connect(),
    wsUrl: relay.url.replace("http", "ws"),
    socketFolder: settings.socketFolder ?? "",
    /** Of one that is registered. */
    socketOf: (sandboxId: string) => socketPath(settings.socketFolder ?? "", sandboxId),
    stateFile: settings.stateFile,
    reports,
    resources,
    stop: () => relay.close(),
    start: async () => {
      relay = await startRelay({ ...settings, port });
    },
    close: () => resources.close(),
  };
}

export function asAdmin(method: string, body?: object): RequestInit {
  const headers = { authorization: `Bearer ${adminKey}` };
  return body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
}

export async function registerToken(
  relay: { url: string },
  sandboxId: string,
  { generation = 1, expiresAt = new Date(Date.now() + 60_000).toISOString(), token = newSecret() } = {},
): Promise<{ token: string; response: Response }> {
  const body = { sandboxId, generation, tokenHash: sha256(token), expiresAt };
  return { token, response: await fetch(relay.url + relayPaths.joinTokens, asAdmin("POST", body)) };
}

export function trade(relay: { url: string }, token: string): Promise<Response> {
  const headers = { authorization: `Bearer ${token}` };
  return fetch(relay.url + relayPaths.join, { method: "POST", headers });
}

export async function joinSandbox(relay: { url: string }, sandboxId = newId("sandbox"), generation = 1) {
  const { token } = await registerToken(relay, sandboxId, { generation });
  const { pass } = joined.parse(await (await trade(relay, token)).json());
  return { sandboxId, pass, token };
}

/** A sandbox that has joined and is connected. */
export async function onlineSandbox(relay: RelayUnderTest, bootId = "boot1") {
  const member = await joinSandbox(relay);
  const socket: FrameSocket = await connectSandbox({ url: relay.wsUrl, pass: member.pass, bootId });
  return { ...member, socket };
}

export function linksTo(relay: { url: string }, changes: Partial<Parameters<typeof openRelayLinks>[0]> = {}) {
  return openRelayLinks({ relayUrl: relay.url, adminKey, reattachMs: 10_000, log: silentLog, ...changes });
}
