import { resolve } from "node:path";
import { pathExists } from "#shared/files/path-exists.ts";

const FILE_NAME = "pistis.json";

/** `--config`, else ./pistis.json when there is one, else none. */
export async function configFileIn(option: string | undefined, cwd: string): Promise<string | undefined> {
  if (option !== undefined) return resolve(cwd, option);
  const file = resolve(cwd, FILE_NAME);
  return (await pathExists(file)) ? file : undefined;
}
