// A sandbox on disk: sandboxes/<sandboxId>/{workspace,home,pistisd,meta.json,life.json}. A folder appears and
// disappears by one rename, so a process that dies in between leaves a name that the sweep knows.
import { randomBytes } from "node:crypto";
import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { sandboxSpec } from "#schemas/provider/task.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { StartSandbox } from "../provider.ts";
import { removeTree } from "./remove-tree.ts";

const meta = z.strictObject({
  install: z.string().min(1),
  sandboxId: z.string().regex(/^sbx_[0-9a-z]{1,64}$/),
  session: z.string(),
  generation: z.number().int().positive(),
  spec: sandboxSpec,
  uid: z.number().int().nonnegative().describe("Owner of its files on this machine"),
});

/** Who runs it: a process id alone may be somebody else's by now, with its start time it is not. */
const life = z.strictObject({
  taskId: z.string(),
  initPid: z.number().int().positive(),
  startTicks: z.string(),
});

export type Meta = z.output<typeof meta>;
export type Life = z.output<typeof life>;

const UNFINISHED = ".new-";
const DOOMED = ".gone-";
/** Folders that the sandbox's own user owns. */
const OWNED = ["workspace", "home", "pistisd"] as const;

export function sandboxesIn(stateDir: string): string {
  return join(stateDir, "sandboxes");
}

export function folderOf(stateDir: string, sandboxId: string): string {
  if (!/^sbx_[0-9a-z]{1,64}$/.test(sandboxId)) throw new Refusal("bad_sandbox_id", `${sandboxId} is no sandbox id`);
  return join(sandboxesIn(stateDir), sandboxId);
}

/** Makes the folder whole or not at all. */
export async function createFolder(
  stateDir: string,
  install: string,
  request: StartSandbox,
  uid: number,
): Promise<Meta> {
  const { sandboxId, session, generation, spec } = request;
  const target = folderOf(stateDir, sandboxId);
  const made = join(sandboxesIn(stateDir), `${UNFINISHED}${sandboxId}-${suffix()}`);
  await mkdir(made, { mode: 0o711 });
  for (const name of OWNED) {
    await mkdir(join(made, name), { mode: name === "pistisd" ? 0o700 : 0o755 });
    await chown(join(made, name), uid, uid).catch(ownerUnchanged(uid));
  }
  const content: Meta = { install, sandboxId, session, generation, spec, uid };
  await writeJson(join(made, "meta.json"), content);
  await rename(made, target);
  step("provider.folder.made");
  return content;
}

/** A user who is not root owns what it makes already; its group may differ from its uid. */
function ownerUnchanged(uid: number) {
  return (error: unknown) => {
    if (process.getuid?.() !== uid) throw error;
  };
}

/** undefined: there is none. Throws Fatal `sandbox_unreadable` when its description does not fit. */
export async function readMeta(stateDir: string, sandboxId: string): Promise<Meta | undefined> {
  const text = await readText(join(folderOf(stateDir, sandboxId), "meta.json"));
  if (text === undefined) return undefined;
  const parsed = meta.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw new Fatal("sandbox_unreadable", `meta.json of sandbox ${sandboxId} is not what this version wrote`, {
    cause: parsed.error,
    next: `Look at ${folderOf(stateDir, sandboxId)}; remove it if it is of no use.`,
  });
}

export async function writeMeta(stateDir: string, content: Meta): Promise<void> {
  await writeJson(join(folderOf(stateDir, content.sandboxId), "meta.json"), content);
}

/** undefined when it has not been started, or when the record was half written at a power loss: then nothing runs either. */
export async function readLife(stateDir: string, sandboxId: string): Promise<Life | undefined> {
  const text = await readText(join(folderOf(stateDir, sandboxId), "life.json"));
  return text === undefined ? undefined : life.safeParse(parseJson(text)).data;
}

export async function writeLife(stateDir: string, sandboxId: string, content: Life): Promise<void> {
  await writeJson(join(folderOf(stateDir, sandboxId), "life.json"), content);
}

export async function sandboxIds(stateDir: string): Promise<string[]> {
  return (await readdir(sandboxesIn(stateDir))).filter((name) => /^sbx_[0-9a-z]{1,64}$/.test(name)).sort();
}

/** Gone for every reader with the rename; the bytes follow. */
export async function removeFolder(stateDir: string, sandboxId: string): Promise<void> {
  const doomed = join(sandboxesIn(stateDir), `${DOOMED}${sandboxId}-${suffix()}`);
  step("provider.folder.removing");
  await rename(folderOf(stateDir, sandboxId), doomed);
  step("provider.folder.doomed");
  await removeTree(doomed);
}

/** Removes what a process that died left half made or half deleted. */
export async function sweepFolders(stateDir: string): Promise<void> {
  const names = await readdir(sandboxesIn(stateDir));
  const leftovers = names.filter((name) => name.startsWith(UNFINISHED) || name.startsWith(DOOMED));
  for (const name of leftovers) await removeTree(join(sandboxesIn(stateDir), name));
}

async function writeJson(path: string, content: Meta | Life): Promise<void> {
  const aside = `${path}.${suffix()}`;
  await writeFile(aside, `${JSON.stringify(content)}\n`, { mode: 0o600 });
  await rename(aside, path).catch(async (error: unknown) => {
    await rm(aside, { force: true });
    throw error;
  });
}

async function readText(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function suffix(): string {
  return randomBytes(6).toString("hex");
}
