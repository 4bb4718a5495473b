// The folder that holds everything of one install on this machine, and what its files are called.
import { mkdir, open, rename } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Environment } from "#shared/config/interpolate.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { syncFolder } from "#shared/files/sync-folder.ts";

const DEFAULT_NAME = ".pistis";

export type StateFolder = Readonly<{
  path: string;
  secrets: string;
  lock: string;
  /** Where the running server is; gone when none runs. */
  server: string;
  log: string;
}>;

/** `--state`, else PISTIS_STATE, else ./.pistis. */
export function stateFolder(option: string | undefined, environment: Environment, cwd: string): StateFolder {
  const path = resolve(cwd, option ?? environment["PISTIS_STATE"] ?? DEFAULT_NAME);
  return {
    path,
    secrets: join(path, "secrets.json"),
    lock: join(path, "lock"),
    server: join(path, "server.json"),
    log: join(path, "pistis.log"),
  };
}

/** What each service keeps in the state folder, alike in `pistis dev` and as processes of their own. */
export function serviceFolders({ path }: StateFolder) {
  return {
    nats: join(path, "nats"),
    blobs: join(path, "blobs"),
    relay: join(path, "relay"),
    relaySocketFolder: join(path, "relay-sockets"),
    egressSocketPath: join(path, "egress", "pipe.sock"),
    dockerProxySocketPath: join(path, "docker-proxy", "docker.sock"),
    sandboxes: join(path, "sandboxes"),
    publisher: join(path, "publisher"),
  };
}

/**
 * Only the owner may list it. Root's may be passed through, not listed, by the other user that PostgreSQL then runs as;
 * what must stay private in it has rights of its own.
 */
export async function makeStateFolder({ path }: StateFolder): Promise<void> {
  const mode = process.getuid?.() === 0 ? 0o711 : 0o700;
  await mkdir(path, { recursive: true, mode }).catch((cause: unknown) => {
    throw new Refusal("state_folder", `The state folder ${path} cannot be made`, {
      cause,
      next: "Choose another with --state or PISTIS_STATE",
    });
  });
}

/** A file only its owner may read, whole or not at all: written to the side, flushed, renamed. */
export async function writePrivateFile(file: string, text: string): Promise<void> {
  const aside = `${file}.${process.pid}.new`;
  {
    await using handle = await open(aside, "w", 0o600);
    await handle.writeFile(text);
    await handle.sync();
  }
  await rename(aside, file);
  await syncFolder(dirname(file));
}

/** The file's text, or `undefined` when there is no such file. */
export async function readIfThere(file: string): Promise<string | undefined> {
  try {
    await using handle = await open(file, "r");
    return await handle.readFile("utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
