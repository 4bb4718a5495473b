// The lower half of the product alone: a relay, the local provider and links, with no ledger. For benches, and for
// tests of what a hostile sandbox can do.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { dockerSandboxes } from "#schemas/config/docker-sandboxes.ts";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import { relayPaths } from "#schemas/wire/relay-http.ts";
import { openDockerProvider } from "#services/providers/docker/docker-provider.ts";
import { dockerCli, removeInstalls } from "#services/providers/docker/testing/docker-guests.ts";
import { openLocalProvider } from "#services/providers/local/local-provider.ts";
import type { SandboxProvider, SandboxRef, StartSandbox } from "#services/providers/provider.ts";
import { startRelay } from "#services/relay/relay.ts";
import { newId, newSecret, sha256 } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { openRelayLinks } from "#shared/sandbox-link/relay-link.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";

export const PISTISD_FOLDER = resolve(import.meta.dirname, "../../dist/pistisd");
const JOIN_MS = 20_000;
const TOKEN_LIFE_MS = 300_000;

const LIMITS = { image: null, memoryMiB: 2_048, cpuCores: 2, processesMax: 256, diskMiB: 4_096 };
const SPEC: SandboxSpec = { ...LIMITS, network: { mode: "none" } };

export type Sandboxes = Readonly<{
  provider: SandboxProvider;
  relayUrl: string;
  adminKey: string;
  /** Makes a sandbox and resolves when pistisd in it accepted the link. */
  open: () => Promise<{ ref: SandboxRef; link: SandboxLink }>;
  /** Starts it again, with a new join token. */
  restart: (ref: SandboxRef) => Promise<void>;
  /** Stops the relay and starts it again on the same port and state file. */
  restartRelay: () => Promise<void>;
  close: () => Promise<void>;
}>;

export type SandboxesOptions = Readonly<{
  /** Of Docker containers; local sandboxes when absent. */
  image?: string;
  spec?: Partial<SandboxSpec>;
  /** How long one may take to join. */
  joinMs?: number;
}>;

export async function openSandboxes({ image, spec = {}, joinMs = JOIN_MS }: SandboxesOptions = {}): Promise<Sandboxes> {
  const resources = new Resources();
  const folder = await mkdtemp(join(tmpdir(), "pistis-sandboxes-"));
  resources.add("folder", folder, () => rm(folder, { recursive: true, force: true }));
  const adminKey = newSecret();
  const relaySocketFolder = join(folder, "relay-sockets");
  const relayOn = (port: number) =>
    startRelay({
      host: "127.0.0.1",
      port,
      socketFolder: relaySocketFolder,
      adminKey,
      stateFile: join(folder, "relay.json"),
      reportJoined: async () => undefined,
      log: silentLog,
    });
  let relay = await relayOn(0);
  resources.add("relay", undefined, () => relay.close());
  const restartRelay = async () => {
    await relay.close();
    relay = await relayOn(Number(new URL(relay.url).port));
  };
  const installId = newSecret();
  if (image !== undefined) resources.add("Docker", installId, (it) => removeInstalls(dockerCli(), [it]));
  const about = { installId, relaySocketFolder, pistisdFolder: PISTISD_FOLDER, log: silentLog };
  const provider =
    image === undefined
      ? await openLocalProvider({ ...about, stateDir: join(folder, "local"), readOnly: {} })
      : await openDockerProvider({ ...about, image, docker: dockerSandboxes.parse({}), stopAtClose: false });
  resources.add("provider", provider, (it) => it.close());
  const openLink = openRelayLinks({
    relayUrl: relay.url,
    adminKey,
    connect: () => relay.connect(),
    reattachMs: 5_000,
    log: silentLog,
  });
  /** A start with a new join token. */
  const request = async (ref: SandboxRef): Promise<StartSandbox> => {
    const joinToken = await registerToken(relay.url, adminKey, ref);
    return { ...ref, taskId: newId("task"), spec: { ...SPEC, ...spec }, joinToken };
  };
  const open = async () => {
    const ref = { sandboxId: newId("sandbox"), session: newId("session"), generation: 1 };
    await provider.create(await request(ref));
    resources.add("sandbox", ref, () => provider.destroy(ref));
    const link = openLink({ sandboxId: ref.sandboxId, role: "brain", epoch: 1 });
    resources.add("link", link, (it) => it.close());
    await link.ready(joinMs);
    return { ref, link };
  };
  const restart = async (ref: SandboxRef) => provider.restart(await request(ref));
  return { provider, relayUrl: relay.url, adminKey, open, restart, restartRelay, close: () => resources.close() };
}

async function registerToken(relayUrl: string, adminKey: string, ref: SandboxRef): Promise<string> {
  const token = newSecret();
  const answer = await fetch(new URL(relayPaths.joinTokens, relayUrl), {
    method: "POST",
    headers: { authorization: `Bearer ${adminKey}`, "content-type": "application/json" },
    body: JSON.stringify({
      sandboxId: ref.sandboxId,
      generation: ref.generation,
      tokenHash: sha256(token),
      expiresAt: new Date(Date.now() + TOKEN_LIFE_MS).toISOString(),
    }),
  });
  if (!answer.ok) throw new Error(`The relay answered ${answer.status} to a join token`);
  return token;
}
