// Sandboxes on this very machine, isolated by bubblewrap: a development machine, or a server without Docker.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";
import { oneAtATime } from "../one-at-a-time.ts";
import type { SandboxProvider, SandboxRef, SeenSandbox, StartSandbox } from "../provider.ts";
import { unsupported } from "../refusals.ts";
import { type Cgroups, closeCgroups, openCgroups } from "./cgroups.ts";
import { sweepGuests } from "./guest-sweep.ts";
import { writeGuestFiles } from "./guest-view.ts";
import { describeIsolation } from "./isolation.ts";
import { checkRequirements } from "./requirements.ts";
import { endGuest, type RunningGuest } from "./running-guest.ts";
import {
  createSandbox,
  destroySandbox,
  inspectSandbox,
  listSandboxes,
  restartSandbox,
  stopSandbox,
} from "./sandbox.ts";
import { sandboxesIn, sweepFolders } from "./sandbox-folder.ts";

export type LocalSetting = Readonly<{
  /** Holds the sandboxes' disks; only this provider uses it. */
  stateDir: string;
  /** Marks what belongs to this install. */
  installId: string;
  /** The relay's Unix socket. Its folder is what the sandbox sees: it should hold nothing else. */
  relaySocketFolder: string;
  /** Holds pistisd, pistisd-entry and their libraries. */
  pistisdFolder: string;
  /** Folders of this machine that every sandbox sees, read-only: path inside → path here. */
  readOnly: { readonly [inside: string]: string };
  log: Log;
}>;

/** What the provider's parts share. */
export type Local = LocalSetting &
  Readonly<{
    root: boolean;
    label: string;
    guestFiles: string;
    cgroups: Cgroups;
    running: Map<string, RunningGuest>;
    watchers: Set<(ended: SeenSandbox) => void>;
  }>;

/**
 * Opens the provider: ends what an earlier process left running and removes what it left half done.
 * Throws Refusal with the next step when this machine cannot isolate (checkRequirements).
 */
export async function openLocalProvider(setting: LocalSetting): Promise<SandboxProvider> {
  await checkRequirements();
  const local = await prepare(setting);
  await sweepGuests(local);
  await sweepFolders(setting.stateDir);
  const inTurn = oneAtATime();
  return {
    name: "local",
    capabilities: new Set(["stop"] as const),
    create: (request: StartSandbox) => inTurn(request.sandboxId, () => createSandbox(local, request)),
    restart: (request: StartSandbox) => inTurn(request.sandboxId, () => restartSandbox(local, request)),
    // No call freezes a sandbox's processes at once and for good, so pausing is not offered.
    pause: () => Promise.reject(unsupported("local", "pause")),
    resume: () => Promise.reject(unsupported("local", "pause")),
    stop: (ref: SandboxRef) => inTurn(ref.sandboxId, () => stopSandbox(local, ref)),
    inspect: (ref: SandboxRef) => inTurn(ref.sandboxId, () => inspectSandbox(local, ref)),
    destroy: (ref: SandboxRef) => inTurn(ref.sandboxId, () => destroySandbox(local, ref)),
    list: () => listSandboxes(local),
    watch: (onEnd) => {
      local.watchers.add(onEnd);
      return () => local.watchers.delete(onEnd);
    },
    isolation: () => describeIsolation(local.cgroups),
    close: () => close(local),
  };
}

async function prepare(setting: LocalSetting): Promise<Local> {
  const { stateDir, installId } = setting;
  await mkdir(sandboxesIn(stateDir), { recursive: true, mode: 0o711 });
  await mkdir(join(stateDir, "stage"), { recursive: true, mode: 0o755 });
  const label = `pistis-${sha256(installId).slice(0, 12)}`;
  return {
    ...setting,
    root: process.getuid?.() === 0,
    label,
    guestFiles: await writeGuestFiles(stateDir),
    cgroups: await openCgroups(label),
    running: new Map(),
    watchers: new Set(),
  };
}

async function close(local: Local): Promise<void> {
  local.watchers.clear();
  await Promise.all([...local.running.keys()].map((sandboxId) => endGuest(local, sandboxId)));
  await closeCgroups(local.cgroups);
}
