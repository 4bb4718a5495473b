// A sandbox that runs as a child of this process: started, watched, ended.
import { dirname, join } from "node:path";
import type { StartSandbox } from "../provider.ts";
import { limitedBy, makeGroups, outOfMemoryKills, removeGroups } from "./cgroups.ts";
import {
  GUEST_HOME,
  type GuestSources,
  guestArguments,
  JOIN_TOKEN_FILE,
  PISTISD_FOLDER,
  PISTISD_STATE,
  RELAY_FOLDER,
} from "./guest-view.ts";
import { Descriptor, type Guest, launch } from "./launch.ts";
import { guestCommand, launchCommand, SYSTEM_PATH } from "./launch-script.ts";
import type { Local } from "./local-provider.ts";
import { killProcess } from "./process-identity.ts";
import { folderOf, type Meta, writeLife } from "./sandbox-folder.ts";

export type RunningGuest = Readonly<{
  meta: Meta;
  guest: Guest;
  asked: { reason: string | undefined };
  over: Promise<void>;
}>;

/** Resolves when the isolation stands and pistisd's entry was started. A process that dies here takes the guest with it. */
export async function startGuest(local: Local, meta: Meta, request: StartSandbox): Promise<void> {
  const { sandboxId } = meta;
  const groupFiles = await makeGroups(local.cgroups, sandboxId, meta.spec);
  const guest = await launch(launchRequest(local, meta, request.joinToken, groupFiles)).catch(
    async (error: unknown) => {
      await removeGroups(local.cgroups, sandboxId);
      throw error;
    },
  );
  const asked: RunningGuest["asked"] = { reason: undefined };
  const over = guest.ended.then(({ lastWords }) => ended(local, meta, asked, lastWords));
  local.running.set(sandboxId, { meta, guest, asked, over });
  await writeLife(local.stateDir, sandboxId, {
    taskId: request.taskId,
    initPid: guest.init.pid,
    startTicks: guest.init.startTicks,
  });
}

/** Ends it on purpose: nobody is told. Resolves when no process of it is left. */
export async function endGuest(local: Local, sandboxId: string): Promise<void> {
  const running = local.running.get(sandboxId);
  if (running === undefined) return;
  running.asked.reason = "It was asked to end";
  await killProcess(running.guest.init);
  await running.over;
}

async function ended(local: Local, meta: Meta, asked: RunningGuest["asked"], lastWords: string): Promise<void> {
  const { sandboxId, session, generation } = meta;
  const kills = await outOfMemoryKills(local.cgroups, sandboxId);
  if (!(await removeGroups(local.cgroups, sandboxId))) {
    local.log.warn({ sandboxId }, "A control group could not be removed yet; the next start removes it");
  }
  local.running.delete(sandboxId);
  if (asked.reason !== undefined) return;
  const memory = kills > 0 ? ` Its memory limit of ${meta.spec.memoryMiB} MiB was reached ${kills} times.` : "";
  const words = lastWords === "" ? "" : ` Last words: ${lastWords.slice(-300)}`;
  const reason = `Its processes ended.${memory}${words}`;
  local.log.warn({ sandboxId, reason }, "A sandbox ended by itself");
  for (const watcher of local.watchers) watcher({ sandboxId, session, generation, state: "stopped", reason });
}

function launchRequest(local: Local, meta: Meta, token: string, groupFiles: readonly string[]) {
  const { stateDir, root, readOnly } = local;
  const limits = limitedBy(local.cgroups);
  const inner = guestCommand(
    `${local.label}-${meta.sandboxId}`,
    {
      processesMax: meta.spec.processesMax,
      fileMiBMax: meta.spec.diskMiB,
      memoryMiBMax: limits.has("memory") ? undefined : meta.spec.memoryMiB,
    },
    Descriptor.ready,
    join(PISTISD_FOLDER, "pistisd-entry"),
  );
  const inside = Object.keys(readOnly);
  const sources = [
    folderOf(stateDir, meta.sandboxId),
    local.guestFiles,
    local.pistisdFolder,
    dirname(local.relaySocketPath),
    ...inside.map((path) => readOnly[path] ?? ""),
  ];
  const launching = { groupFiles, stage: join(stateDir, "stage"), uid: meta.uid, argsDescriptor: Descriptor.args };
  const { command, seen } = launchCommand(launching, root, sources, inner);
  const [sandbox = "", guestFiles = "", pistisd = "", relay = "", ...extra] = seen;
  const view: GuestSources = {
    ...{ sandbox, guestFiles, pistisd, relay },
    readOnly: Object.fromEntries(inside.map((path, index) => [path, extra[index] ?? ""])),
  };
  const descriptors = { info: Descriptor.info, token: Descriptor.token, seccomp: undefined };
  const args = guestArguments(view, descriptors, guestEnvironment(local));
  return { command, env: { PATH: SYSTEM_PATH }, args, token, seccomp: undefined };
}

function guestEnvironment(local: Local): Record<string, string> {
  return {
    PATH: SYSTEM_PATH,
    HOME: GUEST_HOME,
    USER: "pistis",
    LOGNAME: "pistis",
    LANG: "C.UTF-8",
    PISTIS_RELAY_URL: `unix:${join(RELAY_FOLDER, local.relaySocketPath.slice(dirname(local.relaySocketPath).length + 1))}`,
    PISTIS_JOIN_TOKEN_FILE: JOIN_TOKEN_FILE,
    PISTISD_STATE,
  };
}
