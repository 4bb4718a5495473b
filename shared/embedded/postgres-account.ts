// PostgreSQL refuses to run as root. Root therefore starts it as another user, or, where that user could not reach
// the files (everything under root's own 0700 home), in a user namespace in which root is called 65534.
import { execFile } from "node:child_process";
import { chown, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { Refusal } from "#shared/errors/errors.ts";

const run = promisify(execFile);

const NOBODY = 65_534;
const MAPPED = ["unshare", "--user", `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, "--"];

/** `prefix` goes before the program's own command line; `own` gives a new file to the account. */
export type PostgresAccount = Readonly<{
  kind: "same" | "switched" | "mapped";
  prefix: readonly string[];
  own: (path: string) => Promise<void>;
}>;

/** The owner of an existing `dataDir` decides; for a new one it is the least privileged account that reaches the files. */
export async function postgresAccount(where: {
  folder: string;
  dataDir: string;
  program: string;
}): Promise<PostgresAccount> {
  if (process.getuid?.() !== 0) return { kind: "same", prefix: [], own: async () => undefined };
  const owner = await stat(where.dataDir).then(
    (entry) => entry,
    () => undefined,
  );
  if (owner !== undefined) return owner.uid === 0 ? mapped() : switchedTo(owner.uid, owner.gid);
  if ((await reachable(where.folder)) && (await reachable(dirname(where.program)))) {
    const { uid, gid } = await ordinaryUser();
    return switchedTo(uid, gid);
  }
  return mapped();
}

async function mapped(): Promise<PostgresAccount> {
  const [program = "", ...options] = MAPPED;
  await run(program, [...options, "true"]).catch((cause: unknown) => {
    throw new Refusal("postgres_account", "PostgreSQL cannot run as root and user namespaces are not allowed here", {
      cause,
      next: "Put the state folder (--state) and the checkout where every user can read, or run as an ordinary user",
    });
  });
  return { kind: "mapped", prefix: MAPPED, own: async () => undefined };
}

function switchedTo(uid: number, gid: number): PostgresAccount {
  return {
    kind: "switched",
    prefix: ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--"],
    own: (path) => chown(path, uid, gid),
  };
}

async function ordinaryUser(): Promise<{ uid: number; gid: number }> {
  const entry = await run("getent", ["passwd", "postgres"]).then(
    ({ stdout }) => stdout,
    () => "",
  );
  const [, , uid, gid] = entry.trim().split(":");
  return uid === undefined || gid === undefined ? { uid: NOBODY, gid: NOBODY } : { uid: Number(uid), gid: Number(gid) };
}

/** Whether any user may enter every folder down to this one. */
async function reachable(folder: string): Promise<boolean> {
  const others = ((await stat(folder)).mode & 0o001) !== 0;
  if (!others) return false;
  const parent = dirname(folder);
  return parent === folder ? true : reachable(parent);
}
