// The relay's one file: who may join and who has joined, as hashes. It is replaced whole: written
// to the side, flushed, renamed, and the folder flushed, so that a crash leaves the old or the new one.
import { open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { Fatal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";

const hash = z.string().regex(/^[0-9a-f]{64}$/);
const generation = z.number().int().positive();

const sandboxState = z.strictObject({
  sandboxId: z.string().regex(/^sbx_[0-9a-z]{1,64}$/),
  generation: generation.describe("The newest that a token was registered for"),
  tokens: z.array(z.strictObject({ hash, generation, expiresAt: z.iso.datetime(), used: z.boolean() })).max(10_000),
  pass: z.strictObject({ hash, generation }).nullable(),
  reportedBootId: z.string().max(100).nullable(),
});

const relayState = z.strictObject({ version: z.literal(1), sandboxes: z.array(sandboxState).max(1_000_000) });

export type SandboxRecord = z.output<typeof sandboxState>;
export type TokenRecord = SandboxRecord["tokens"][number];

/** The records of the file; none when there is no file. Throws Fatal `relay_state_broken` for anything else. */
export async function readState(file: string): Promise<SandboxRecord[]> {
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined;
    throw broken(file, cause);
  });
  if (text === undefined) return [];
  try {
    return relayState.parse(JSON.parse(text)).sandboxes;
  } catch (cause) {
    throw broken(file, cause);
  }
}

function broken(file: string, cause: unknown): Fatal {
  const what = cause instanceof z.ZodError ? z.prettifyError(cause) : String(cause);
  return new Fatal("relay_state_broken", `The relay's state file ${file} cannot be used: ${what.slice(0, 500)}`, {
    cause,
    next: "Put back a good copy, or move the file away: every sandbox then has to be started again to join anew.",
  });
}

export async function writeState(file: string, sandboxes: SandboxRecord[]): Promise<void> {
  const aside = `${file}.new`;
  await using handle = await open(aside, "w", 0o600);
  await handle.chmod(0o600);
  await handle.writeFile(`${JSON.stringify({ version: 1, sandboxes })}\n`);
  await handle.sync();
  step("relay.state.written");
  await rename(aside, file);
  await using folder = await open(dirname(file), "r");
  await folder.sync();
  step("relay.state.replaced");
}

/** Runs `write` whenever asked, never twice at once; those who ask during a write share the next one. */
export function coalesced(write: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  return () => {
    next ??= running
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        running = write();
        return running;
      });
    return next;
  };
}
