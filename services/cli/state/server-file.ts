// Where the server of a state folder listens, for the commands that talk to it. Holds no secret.
import { rm } from "node:fs/promises";
import { z } from "zod";
import { readIfThere, type StateFolder, writePrivateFile } from "./state-folder.ts";

const serverFile = z.object({
  url: z.url({ protocol: /^https?$/ }),
  pid: z.number().int().positive(),
  natsUrl: z.url({ protocol: /^(nats|tls)$/ }).optional(),
  databaseUrl: z.url({ protocol: /^postgres(ql)?$/ }).optional(),
});

/** What runs on the folder. `databaseUrl` is of the embedded one alone, and without its password. */
export type RunningServer = Readonly<Pick<z.output<typeof serverFile>, "url" | "natsUrl" | "databaseUrl">>;

export async function writeServerFile(folder: StateFolder, running: RunningServer): Promise<void> {
  await writePrivateFile(folder.server, JSON.stringify({ ...running, pid: process.pid }));
}

export async function removeServerFile(folder: StateFolder): Promise<void> {
  await rm(folder.server, { force: true });
}

/** The address that was written last. A server that was killed leaves it behind: ask there before you trust it. */
export async function readServerFile(folder: StateFolder): Promise<string | undefined> {
  return (await readRunning(folder))?.url;
}

/** The same with where its NATS and database are. */
export async function readRunning(folder: StateFolder): Promise<RunningServer | undefined> {
  const text = await readIfThere(folder.server);
  if (text === undefined) return undefined;
  try {
    return serverFile.parse(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return undefined;
    throw error;
  }
}
