// For tests that need no relay: in place of pistisd a shell that runs what comes through one pipe of /workspace and
// answers through another.
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { silentLog } from "#shared/service/log.ts";
import type { ProviderUnderTest } from "../../provider.contract.ts";
import { type LocalSetting, openLocalProvider } from "../local-provider.ts";
import { killProcess } from "../process-identity.ts";
import { folderOf, readLife } from "../sandbox-folder.ts";

const execute = promisify(execFile);

const ENTRY = `#!/bin/sh
sha256sum < "$PISTIS_JOIN_TOKEN_FILE" > /home/pistis/token-hash
rm -f "$PISTIS_JOIN_TOKEN_FILE"
for pipe in /workspace/.out /workspace/.in; do [ -p $pipe ] || mkfifo $pipe; done
while :; do
  sh /workspace/.in > /home/pistis/answer 2>&1
  cat /home/pistis/answer > /workspace/.out
done
`;

export type ShellGuests = ProviderUnderTest &
  Readonly<{
    folder: string;
    setting: LocalSetting;
    /** In a sandbox of another state folder. */
    runIn: (stateDir: string, sandboxId: string, command: string) => Promise<string>;
  }>;

/** A local provider in a folder of its own. */
export async function openShellGuests(readOnly: LocalSetting["readOnly"] = {}): Promise<ShellGuests> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-local-"));
  const setting: LocalSetting = {
    stateDir: join(folder, "state"),
    installId: folder,
    relaySocketFolder: join(folder, "relay"),
    pistisdFolder: join(folder, "pistisd"),
    readOnly,
    log: silentLog,
  };
  await mkdir(join(folder, "relay"));
  await mkdir(setting.pistisdFolder);
  await writeFile(join(setting.pistisdFolder, "pistisd-entry"), ENTRY);
  await chmod(join(setting.pistisdFolder, "pistisd-entry"), 0o755);
  const provider = await openLocalProvider(setting);
  return {
    folder,
    setting,
    provider,
    openOther: () => openLocalProvider({ ...setting, installId: `${folder}-other` }),
    crash: (sandboxId) => crash(setting, sandboxId),
    run: (sandboxId, command) => run(setting.stateDir, sandboxId, command),
    runIn: run,
    dispose: async () => {
      await provider.close();
      await execute("rm", ["-rf", folder]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function crash(setting: LocalSetting, sandboxId: string): Promise<void> {
  const life = await readLife(setting.stateDir, sandboxId);
  if (life !== undefined) await killProcess({ pid: life.initPid, startTicks: life.startTicks });
}

/** Waits for the pipes, then for the answer. */
async function run(stateDir: string, sandboxId: string, command: string): Promise<string> {
  const script = `until [ -p "$2/.in" ]; do :; done; printf '%s\\n' "$1" > "$2/.in"; cat "$2/.out"`;
  const workspace = join(folderOf(stateDir, sandboxId), "workspace");
  const { stdout } = await execute("timeout", ["30", "sh", "-c", script, "run", command, workspace], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout;
}
