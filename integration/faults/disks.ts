// The sandboxes' disks as the host sees them, the ones that were taken away included.
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { type Mark, readMarks, type WrittenFile } from "./observed.ts";

export type Disks = Readonly<{
  /** The sandboxes that have a folder now. */
  sandboxes: () => Promise<string[]>;
  /** The folder of pistisd's own state in the sandbox. */
  pistisdFolder: (sandboxId: string) => string;
  /** Takes the sandbox's folder away, as a machine that burnt down would; what it holds stays readable here. */
  lose: (sandboxId: string) => Promise<void>;
  marks: () => Promise<Mark[]>;
  files: () => Promise<WrittenFile[]>;
}>;

/** `folder`: the local provider's. `graveyard`: on the same file system. */
export function openDisks(folder: string, graveyard: string): Disks {
  const living = join(folder, "sandboxes");
  const list = async (from: string) => {
    if (!existsSync(from)) return [];
    return (await readdir(from)).filter((name) => name.startsWith("sbx_"));
  };
  const all = async () => [
    ...(await list(living)).map((name) => ({ session: sessionOf(name), path: join(living, name) })),
    ...(await list(graveyard)).map((name) => ({ session: sessionOf(name), path: join(graveyard, name) })),
  ];
  return {
    sandboxes: () => list(living),
    pistisdFolder: (sandboxId) => join(living, sandboxId, "pistisd"),
    lose: async (sandboxId) => {
      await mkdir(graveyard, { recursive: true });
      await rename(join(living, sandboxId), join(graveyard, `${sandboxId}.${(await list(graveyard)).length}`));
    },
    marks: async () => {
      const read = (await all()).map(async ({ session, path }) =>
        readMarks(session, await textOf(join(path, "workspace", "marks"))),
      );
      return (await Promise.all(read)).flat();
    },
    files: async () => {
      const read = (await all()).map(({ session, path }) => filesIn(session, join(path, "workspace", "written")));
      return (await Promise.all(read)).flat();
    },
  };
}

function sessionOf(name: string): string {
  return name.replace(/^sbx_/, "ses_").replace(/\..*$/, "");
}

async function filesIn(session: string, folder: string): Promise<WrittenFile[]> {
  if (!existsSync(folder)) return [];
  const names = (await readdir(folder)).filter((name) => name.startsWith("mark-"));
  return Promise.all(
    names.map(async (name) => ({ session, id: name.slice("mark-".length), content: await textOf(join(folder, name)) })),
  );
}

async function textOf(path: string): Promise<string> {
  return readFile(path, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  });
}
