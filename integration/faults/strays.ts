// Requests that no healthy brain sends, straight to a sandbox through the relay: a call that came before comes again
// (I2), and a new one comes under the epoch of a brain that was deposed (I4). pistisd has to refuse both by itself. What
// it lets through leaves a mark, which the checks of I2 and I1 find.
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { z } from "zod";
import { Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { CallNotRun, type OpenLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import { openRelayLinks } from "#shared/sandbox-link/relay-link.ts";
import { silentLog } from "#shared/service/log.ts";
import type { ServiceProcesses } from "../testing/service-processes.ts";
import type { Disks } from "./disks.ts";
import { markCommand } from "./observed.ts";
import type { Random } from "./random.ts";

const READY_MS = 2_000;
const REATTACH_MS = 1_000;
const COMMAND_MS = 10_000;
const EXCERPT = { headBytes: 1_000, tailBytes: 1_000 };

const stateFile = z.object({ epoch: z.number().int() });
const firstLine = z.object({ is: z.literal("command"), command: z.string() });

type Sent = Readonly<{ callId: string; command: string; epoch: number }>;

export type Strays = Readonly<{
  /** A call that this sandbox has a record of, once more. Resolves with false when there was none or it was away. */
  again: (sandboxId: string) => Promise<boolean>;
  /** A call that nobody asked for, of the epoch before the newest. */
  late: (sandboxId: string) => Promise<boolean>;
}>;

export async function openStrays(install: ServiceProcesses, disks: Disks, random: Random): Promise<Strays> {
  const variables = parseEnv(await readFile(join(install.statePath, "env", "brain.env"), "utf8"));
  const adminKey = variables["PISTIS_RELAY_KEY"] ?? "";
  const openLink = openRelayLinks({ relayUrl: install.relayUrl, adminKey, reattachMs: REATTACH_MS, log: silentLog });
  let count = 0;
  return {
    again: async (sandboxId) => {
      const folder = disks.pistisdFolder(sandboxId);
      const known = await recordedCommands(join(folder, "calls"));
      if (known.length === 0) return false;
      return send(openLink, sandboxId, { ...random.pick(known), epoch: await epochIn(folder) });
    },
    late: async (sandboxId) => {
      const epoch = (await epochIn(disks.pistisdFolder(sandboxId))) - 1;
      if (epoch < 1) return false;
      const command = markCommand(`stray-${++count}`, 0);
      return send(openLink, sandboxId, { callId: newId("call"), command, epoch });
    },
  };
}

/** Resolves with true when the sandbox was there to answer, whatever it said. */
async function send(openLink: OpenLink, sandboxId: string, { callId, command, epoch }: Sent): Promise<boolean> {
  // A greeting of an old epoch is refused at once, and what follows on the channel as well.
  const link = openLink({ sandboxId, role: "brain", epoch });
  try {
    await link.ready(READY_MS);
    await link.exec({ callId, command, timeoutMs: COMMAND_MS, background: false, excerpt: EXCERPT });
    return true;
  } catch (error) {
    if (error instanceof Refusal || error instanceof CallNotRun) return true;
    if (error instanceof SandboxLost) return false;
    throw error;
  } finally {
    await link.close();
  }
}

async function epochIn(folder: string): Promise<number> {
  const text = await readFile(join(folder, "state.json"), "utf8").catch(() => '{"epoch":0}');
  return stateFile.parse(JSON.parse(text)).epoch;
}

/** The commands that this sandbox has ever begun. */
async function recordedCommands(folder: string): Promise<Pick<Sent, "callId" | "command">[]> {
  if (!existsSync(folder)) return [];
  const found = (await readdir(folder)).map(async (callId) => {
    const [line = ""] = (await readFile(join(folder, callId), "utf8")).split("\n");
    const recorded = line.startsWith('{"is":"command"') ? firstLine.safeParse(JSON.parse(line)) : undefined;
    return recorded?.success === true ? [{ callId, command: recorded.data.command }] : [];
  });
  return (await Promise.all(found)).flat();
}
