// One server per state folder. The kernel holds the lock for as long as this process has the file open, so there is
// no stale lock, whatever dies; the file's text only says who holds it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { z } from "zod";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { readIfThere, type StateFolder } from "./state-folder.ts";

const holder = z.object({ pid: z.number(), command: z.string(), since: z.string() });

/** Throws a Refusal `state_in_use` that names the holder. */
export async function lockState(folder: StateFolder, command: string): Promise<{ release: () => Promise<void> }> {
  const handle = await open(folder.lock, "a+", 0o600);
  try {
    await flock(handle.fd, folder);
    await handle.truncate(0);
    await handle.writeFile(JSON.stringify({ pid: process.pid, command, since: new Date().toISOString() }));
  } catch (error) {
    await handle.close();
    throw error;
  }
  return { release: () => handle.close() };
}

/** The lock belongs to the open file, which the short-lived child shares with this process. */
async function flock(fd: number, folder: StateFolder): Promise<void> {
  const child = spawn("flock", ["--exclusive", "--nonblock", "3"], { stdio: ["ignore", "ignore", "ignore", fd] });
  const [exitCode] = await once(child, "exit").catch((cause: unknown) => {
    throw new Fatal("no_flock", "The program flock cannot be run", { cause, next: "apt-get install util-linux" });
  });
  if (exitCode !== 0) throw await inUse(folder);
}

async function inUse(folder: StateFolder): Promise<Refusal> {
  const who = await holderOf(folder);
  return new Refusal("state_in_use", `${folder.path} is in use by ${who}`, {
    next: "Use that server, stop it, or choose another folder with --state",
  });
}

async function holderOf(folder: StateFolder): Promise<string> {
  try {
    const { pid, command, since } = holder.parse(JSON.parse((await readIfThere(folder.lock)) ?? ""));
    return `${command} (process ${pid}, since ${since})`;
  } catch (error) {
    // It was locked a moment ago and does not say by whom yet.
    if (error instanceof SyntaxError || error instanceof z.ZodError) return "another process";
    throw error;
  }
}
