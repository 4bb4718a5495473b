import { execFile } from "node:child_process";
import { promisify } from "node:util";

const execute = promisify(execFile);
const COMMAND_MS_MAX = 120_000;

/** Runs a program of this machine, without a shell, and resolves with its standard output. Throws when it fails. */
export async function runCommand(command: string, args: readonly string[], directory?: string): Promise<string> {
  const { stdout } = await execute(command, [...args], {
    timeout: COMMAND_MS_MAX,
    encoding: "utf8",
    ...(directory === undefined ? {} : { cwd: directory }),
  });
  return stdout;
}
