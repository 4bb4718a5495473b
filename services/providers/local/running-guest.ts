// A sandbox that runs as a child of this process: started, watched, ended.
import { join } from "node:path";
import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { seccompFilter } from "#shared/system-calls/filter.ts";
import type { StartSandbox } from "../provider.ts";
import { limitedBy, makeGroups, outOfMemoryKills, removeGroups } from "./cgroups.ts";
import { watchDisk } from "./disk-watch.ts";
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
  end: { asked: boolean; reason: string };
  over: Promise<void>;
}>;

/** Resolves when the isolation stands and pistisd's entry was started. A process that dies here takes the guest with it. */
export async function startGuest(local: Local, meta: Meta, request: StartSandbox): Promise<void> {
  const { sandboxId } = meta;
  const groupFiles = await makeGroups(local.cgroups, sandboxId, meta.spec);
  step("provider.guest.starting");
  const guest = await launch(launchRequest(local, meta, request.joinToken, groupFiles)).catch(
    async (error: unknown) => {
      await removeGroups(local.cgroups, sandboxId);
      throw error;
    },
  );
  const end: RunningGuest["end"] = { asked: false, reason: "Its processes ended." };
  const watching = new AbortController();
  const over = guest.ended.then(({ lastWords }) => {
    watching.abort();
    return ended(local, meta, end, lastWords);
  });
  local.running.set(sandboxId, { meta, guest, end, over });
  limitDisk(local, meta, { guest, end }, watching.signal);
  step("provider.guest.started");
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
  running.end.asked = true;
  await killProcess(running.guest.init);
  await running.over;
}

/** Watching ends with the guest, and a guest that cannot be watched is ended: nothing would keep it from filling the disk. */
function limitDisk(local: Local, meta: Meta, { guest, end }: Pick<RunningGuest, "guest" | "end">, signal: AbortSignal) {
  const { sandboxId, spec } = meta;
  const complain = (error: unknown) =>
    local.log.error({ sandboxId, failure: failureOf(error) }, "A sandbox's disk is not limited");
  const endIt = (why: string) => {
    end.reason = `It was ended because ${why}.`;
    killProcess(guest.init).catch(complain);
  };
  const onOver = (usedMiB: number) =>
    endIt(`its files take ${Math.round(usedMiB)} MiB, over its limit of ${spec.diskMiB} MiB`);
  watchDisk({ folder: folderOf(local.stateDir, sandboxId), limitMiB: spec.diskMiB, onOver, signal }).catch(
    (error: unknown) => {
      complain(error);
      endIt("what its files take could not be measured; the provider's log says more");
    },
  );
}

async function ended(local: Local, meta: Meta, end: RunningGuest["end"], lastWords: string): Promise<void> {
  const { sandboxId, session, generation } = meta;
  const kills = await outOfMemoryKills(local.cgroups, sandboxId);
  if (!(await removeGroups(local.cgroups, sandboxId))) {
    local.log.warn({ sandboxId }, "A control group could not be removed yet; the next start removes it");
  }
  local.running.delete(sandboxId);
  if (end.asked) return;
  const memory = kills > 0 ? ` Its memory limit of ${meta.spec.memoryMiB} MiB was reached ${kills} times.` : "";
  const words = lastWords === "" ? "" : ` Last words: ${lastWords.slice(-300)}`;
  const reason = `${end.reason}${memory}${words}`;
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
    local.relaySocketFolder,
    ...inside.map((path) => readOnly[path] ?? ""),
  ];
  const launching = { groupFiles, stage: join(stateDir, "stage"), uid: meta.uid, argsDescriptor: Descriptor.args };
  const { command, seen } = launchCommand(launching, root, sources, inner);
  const [sandbox = "", guestFiles = "", pistisd = "", relay = "", ...extra] = seen;
  const view: GuestSources = {
    ...{ sandbox, guestFiles, pistisd, relay },
    readOnly: Object.fromEntries(inside.map((path, index) => [path, extra[index] ?? ""])),
  };
  const seccomp = seccompFilter(process.arch);
  const descriptors = {
    info: Descriptor.info,
    token: Descriptor.token,
    seccomp: seccomp === undefined ? undefined : Descriptor.seccomp,
  };
  const args = guestArguments(view, descriptors, guestEnvironment(meta));
  return { command, env: { PATH: SYSTEM_PATH }, args, token, seccomp };
}

function guestEnvironment({ sandboxId, spec }: Meta): Record<string, string> {
  return {
    PATH: SYSTEM_PATH,
    HOME: GUEST_HOME,
    USER: "pistis",
    LOGNAME: "pistis",
    LANG: "C.UTF-8",
    PISTIS_RELAY_URL: `unix:${join(RELAY_FOLDER, relaySocketName(sandboxId))}`,
    PISTIS_JOIN_TOKEN_FILE: JOIN_TOKEN_FILE,
    PISTISD_STATE,
    ...(spec.network.mode === "none" ? {} : { PISTIS_EGRESS: "1" }),
  };
}
