// A server for one `pistis run`, where none runs yet.
import type { Server } from "../client/api.ts";
import type { Context } from "../context.ts";
import type { StateFolder } from "../state/state-folder.ts";
import { startInstall } from "./install.ts";

export async function startForRun(
  context: Context,
  folder: StateFolder,
  { config, keep }: { config: string | undefined; keep: boolean },
): Promise<{ server: Server; close: () => Promise<void> }> {
  const options = config === undefined ? {} : { config };
  const install = await startInstall(context, folder, { ...options, port: 0, command: "pistis run" });
  return {
    server: { url: install.url, token: install.adminToken },
    close: async () => {
      if (keep) await untilCtrlC(context, install.url);
      await install.close();
    },
  };
}

async function untilCtrlC({ terminal, onStop }: Context, url: string): Promise<void> {
  terminal.err(`the server goes on at ${url}; Ctrl-C stops it\n`);
  await new Promise<void>((resolve) => {
    const stopListening = onStop(() => {
      stopListening();
      resolve();
    });
  });
}
