import type { Environment } from "#shared/config/interpolate.ts";
import { type StateFolder, stateFolder } from "./state/state-folder.ts";
import type { Terminal } from "./terminal/terminal.ts";

/** What every command may use of the process that it runs in. */
export type Context = Readonly<{
  environment: Environment;
  cwd: string;
  terminal: Terminal;
  /** Calls `handle` at each Ctrl-C, SIGTERM or SIGHUP instead of ending the process, until the returned function is called. */
  onStop: (handle: () => void) => () => void;
}>;

export function folderOf(context: Context, option: string | undefined): StateFolder {
  return stateFolder(option, context.environment, context.cwd);
}

export const STATE_OPTION = ["--state <dir>", "folder of the install (default: PISTIS_STATE, else ./.pistis)"] as const;
