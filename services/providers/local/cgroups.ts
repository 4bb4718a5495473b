// Limits for a whole sandbox, where the kernel lets us make control groups: below our own group, so that what
// limits this server limits its sandboxes too. Version 1 has one tree per controller, version 2 one for all.
import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import { DAEMON_PROCESSES } from "./launch-script.ts";
import { type ProcessIdentity, startTicksOf } from "./process-identity.ts";

export type Limited = "memory" | "processes" | "cpu";

/** One tree in which a group can be made, and what it can limit. */
export type Hierarchy = Readonly<{ version: 1 | 2; base: string; limits: readonly Limited[] }>;

export type Cgroups = Readonly<{ group: string; hierarchies: readonly Hierarchy[] }>;

const CONTROLLERS: { readonly [controller: string]: Limited } = { memory: "memory", pids: "processes", cpu: "cpu" };
const CPU_PERIOD_US = 100_000;
const REMOVE_TRIES_MAX = 50;
const REMOVE_RETRY_MS = 10;

/** Finds every tree in which this process may make groups. None: limits are per process only. `group` names the install. */
export async function openCgroups(group: string): Promise<Cgroups> {
  const candidates = candidateTrees(
    await readFile("/proc/self/cgroup", "utf8").catch(() => ""),
    await readFile("/proc/self/mountinfo", "utf8").catch(() => ""),
  );
  const hierarchies: Hierarchy[] = [];
  const limited = new Set<Limited>();
  for (const candidate of candidates) {
    const limits = candidate.limits.filter((limit) => !limited.has(limit));
    const usable = limits.length > 0 && (await prepare({ ...candidate, limits }, group));
    if (!usable) continue;
    hierarchies.push({ ...candidate, limits });
    for (const limit of limits) limited.add(limit);
  }
  return { group, hierarchies };
}

export function limitedBy(cgroups: Cgroups): Set<Limited> {
  return new Set(cgroups.hierarchies.flatMap((hierarchy) => hierarchy.limits));
}

/** Pure: the trees in which our own group stands, from /proc/self/cgroup and /proc/self/mountinfo. */
export function candidateTrees(ownGroups: string, mounts: string): Hierarchy[] {
  const own = ownGroups.split("\n").map((line) => line.split(":"));
  return mounts.split("\n").flatMap((line): Hierarchy[] => {
    const [before = "", after = ""] = line.split(" - ");
    const [, , , root = "", mountPoint = ""] = before.split(" ");
    const [type, , options = ""] = after.split(" ");
    if (type === "cgroup") {
      const controllers = options.split(",").filter((option) => option in CONTROLLERS);
      const path = own.find(([, names = ""]) => controllers.some((name) => names.split(",").includes(name)))?.[2];
      if (controllers.length === 0 || path === undefined) return [];
      return [{ version: 1, base: below(mountPoint, root, path), limits: limitsOf(controllers) }];
    }
    if (type !== "cgroup2") return [];
    const path = own.find(([number, names]) => number === "0" && names === "")?.[2];
    if (path === undefined) return [];
    // A version 2 group that holds processes cannot have limited children; then the tree's root is tried.
    const bases = [...new Set([below(mountPoint, root, path), mountPoint])];
    return bases.map((base) => ({ version: 2, base, limits: limitsOf(Object.keys(CONTROLLERS)) }));
  });
}

function below(mountPoint: string, root: string, path: string): string {
  const inside = relative(root, path);
  return inside.startsWith("..") ? mountPoint : join(mountPoint, inside);
}

function limitsOf(controllers: readonly string[]): Limited[] {
  return controllers.flatMap((name) => CONTROLLERS[name] ?? []);
}

async function prepare({ version, base, limits }: Hierarchy, group: string): Promise<boolean> {
  const controllers = Object.keys(CONTROLLERS).filter((name) => limits.some((limit) => CONTROLLERS[name] === limit));
  const probe = join(base, group, "probe");
  try {
    await mkdir(join(base, group), { recursive: true });
    if (version === 2) await delegate(base, group, controllers);
    await mkdir(probe, { recursive: true });
    const files = await readdir(probe);
    await rmdir(probe);
    return controllers.every((name) => files.some((file) => file.startsWith(`${name}.`)));
  } catch (error) {
    // Not ours to change: the caller says which limits there are.
    if (error instanceof Error && "code" in error) return false;
    throw error;
  }
}

async function delegate(base: string, group: string, controllers: readonly string[]): Promise<void> {
  const wanted = controllers.map((name) => `+${name}`).join(" ");
  await writeFile(join(base, "cgroup.subtree_control"), wanted);
  await writeFile(join(base, group, "cgroup.subtree_control"), wanted);
}

/** Makes the sandbox's groups, new or as they are, and answers the files that a process writes 0 to, to be in them. */
export async function makeGroups(cgroups: Cgroups, sandboxId: string, spec: SandboxSpec): Promise<string[]> {
  const procs = cgroups.hierarchies.map(async (hierarchy) => {
    const folder = join(hierarchy.base, cgroups.group, sandboxId);
    await mkdir(folder, { recursive: true });
    for (const limit of hierarchy.limits) await setLimit(folder, hierarchy.version, limit, spec);
    return join(folder, "cgroup.procs");
  });
  return Promise.all(procs);
}

async function setLimit(folder: string, version: 1 | 2, limit: Limited, spec: SandboxSpec): Promise<void> {
  const bytes = String(spec.memoryMiB * 1024 * 1024);
  const quotaUs = String(Math.round(spec.cpuCores * CPU_PERIOD_US));
  const write = (name: string, value: string) => writeFile(join(folder, name), value);
  switch (limit) {
    case "memory":
      if (version === 2) {
        await write("memory.max", bytes);
        // There is no such file where swap is not accounted.
        return write("memory.swap.max", "0").catch(ignoreMissing);
      }
      // Memory alone may not exceed memory with swap, so a limit that changes is first lifted.
      await write("memory.memsw.limit_in_bytes", "-1").catch(ignoreMissing);
      await write("memory.limit_in_bytes", bytes);
      return write("memory.memsw.limit_in_bytes", bytes).catch(ignoreMissing);
    case "processes":
      return write("pids.max", String(spec.processesMax + DAEMON_PROCESSES));
    case "cpu":
      if (version === 2) return write("cpu.max", `${quotaUs} ${CPU_PERIOD_US}`);
      await write("cpu.cfs_period_us", String(CPU_PERIOD_US));
      return write("cpu.cfs_quota_us", quotaUs);
  }
}

function ignoreMissing(error: unknown): void {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code !== "ENOENT" && code !== "EACCES") throw error;
}

/** How often the kernel killed something of the sandbox because its memory was full. */
export async function outOfMemoryKills(cgroups: Cgroups, sandboxId: string): Promise<number> {
  const memory = cgroups.hierarchies.find(({ limits }) => limits.includes("memory"));
  if (memory === undefined) return 0;
  const file = memory.version === 2 ? "memory.events" : "memory.oom_control";
  const text = await readFile(join(memory.base, cgroups.group, sandboxId, file), "utf8").catch(() => "");
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
}

/** Processes that are still in the sandbox's groups. */
export async function processesInGroups(cgroups: Cgroups, sandboxId: string): Promise<ProcessIdentity[]> {
  const pids = new Set<number>();
  for (const { base } of cgroups.hierarchies) {
    const text = await readFile(join(base, cgroups.group, sandboxId, "cgroup.procs"), "utf8").catch(() => "");
    for (const line of text.split("\n").filter((pid) => pid !== "")) pids.add(Number(line));
  }
  const found = [...pids].map(async (pid) => ({ pid, startTicks: await startTicksOf(pid) }));
  return (await Promise.all(found)).flatMap(({ pid, startTicks }) =>
    startTicks === undefined ? [] : [{ pid, startTicks }],
  );
}

/** The sandboxes for which there are groups. */
export async function groupedSandboxes(cgroups: Cgroups): Promise<string[]> {
  const names = cgroups.hierarchies.map(async ({ base }) => {
    const entries = await readdir(join(base, cgroups.group), { withFileTypes: true }).catch(() => []);
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  });
  return [...new Set((await Promise.all(names)).flat())];
}

/** A group stays busy for a moment after its last process died. False: it still is, and the next sweep removes it. */
export async function removeGroups(cgroups: Cgroups, sandboxId: string): Promise<boolean> {
  const removed = cgroups.hierarchies.map(({ base }) => removeGroup(join(base, cgroups.group, sandboxId)));
  return (await Promise.all(removed)).every(Boolean);
}

/** Removes the install's own groups, which are empty by now. */
export async function closeCgroups(cgroups: Cgroups): Promise<void> {
  for (const { base } of cgroups.hierarchies) await removeGroup(join(base, cgroups.group));
}

async function removeGroup(folder: string): Promise<boolean> {
  for (let attempt = 1; attempt <= REMOVE_TRIES_MAX; attempt++) {
    const code = await rmdir(folder).then(() => "ENOENT", errorCode);
    if (code === "ENOENT") return true;
    if (code !== "EBUSY") return false;
    await pause(REMOVE_RETRY_MS);
  }
  return false;
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
