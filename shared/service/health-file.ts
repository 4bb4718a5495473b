// How a supervisor without a network sees that a service serves: a file that is written anew while its event loop turns.
// A process that hangs leaves an old one behind, one that stops or starts none.
import { rm, writeFile } from "node:fs/promises";
import { failureOf } from "#shared/errors/errors.ts";
import type { Log } from "./log.ts";
import type { Resources } from "./resources.ts";

const BEAT_MS = 5_000;

/** What an earlier process left says nothing about this one. */
export async function removeHealthFile(file: string): Promise<void> {
  await rm(file, { force: true });
}

/** Writes the file at once and then every `beatMs`, until `resources` are closed: it is the first that they close. */
export async function keepHealthFile(file: string, log: Log, resources: Resources, beatMs = BEAT_MS): Promise<void> {
  const beat = () => writeFile(file, `${new Date().toISOString()}\n`);
  await beat();
  let beating: Promise<void> = Promise.resolve();
  const note = (error: unknown) =>
    log.error({ file, reason: failureOf(error).message }, "The health file is not written");
  const timer = setInterval(() => {
    beating = beat().catch(note);
  }, beatMs).unref();
  resources.add("health file", file, async (path) => {
    clearInterval(timer);
    await beating;
    await removeHealthFile(path);
  });
}
