// Folders and files: space, rights, what is built, what is configured.
import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Environment } from "#shared/config/interpolate.ts";
import { readConfig } from "#shared/config/read-config.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { pathExists } from "#shared/files/path-exists.ts";
import { findServer } from "../client/find-server.ts";
import { configFileIn } from "../dev/config-file.ts";
import { PISTISD_FILES, PISTISD_FOLDER } from "../dev/pistisd-folder.ts";
import type { StateFolder } from "../state/state-folder.ts";
import { bytesText } from "../terminal/quantities.ts";
import { type Check, missing, ok, warn } from "./check.ts";

const SPACE_BYTES_WARN = 5 * 1024 ** 3;
const SPACE_BYTES_MIN = 1024 ** 3;

export async function checkPistisd(): Promise<Check> {
  const found = await Promise.all(PISTISD_FILES.map((name) => pathExists(join(PISTISD_FOLDER, name))));
  const absent = PISTISD_FILES.filter((_, index) => !found[index]);
  if (absent.length > 0) return missing("pistisd", `not built: no ${absent.join(", ")}`, "npm run build:pistisd");
  const { size } = await stat(join(PISTISD_FOLDER, "pistisd"));
  return ok("pistisd", `built, ${bytesText(size)} (${PISTISD_FOLDER})`);
}

export async function checkSpace({ path }: StateFolder): Promise<Check> {
  const place = await nearestExisting(path);
  const { bavail, bsize } = await statfs(place);
  const free = bavail * bsize;
  const found = `${bytesText(free)} free at ${place}`;
  const next = "Free some space, or choose another state folder with --state";
  if (free < SPACE_BYTES_MIN) return missing("disk space", found, next);
  return free < SPACE_BYTES_WARN ? warn("disk space", found, next) : ok("disk space", found);
}

export async function checkState(folder: StateFolder, environment: Environment): Promise<Check> {
  const place = await nearestExisting(folder.path);
  const writable = await access(place, constants.W_OK).then(
    () => true,
    () => false,
  );
  if (!writable)
    return missing("state folder", `${place} is not writable`, "Choose another with --state or PISTIS_STATE");
  try {
    const server = await findServer(folder, environment);
    return ok(
      "state folder",
      server === undefined ? `${folder.path}, no server runs on it` : `server at ${server.url}`,
    );
  } catch (error) {
    const { message, next } = failureOf(error);
    return missing("state folder", message, next ?? "Choose another with --state");
  }
}

export async function checkConfig(option: string | undefined, cwd: string, environment: Environment): Promise<Check> {
  try {
    const file = await configFileIn(option, cwd);
    const config = await readConfig(file, environment);
    const models = ["script", ...Object.keys(config.models).filter((name) => name !== "script")].join(", ");
    return ok("pistis.json", `${file ?? "none, so all defaults"}; models: ${models}; default: ${config.defaultModel}`);
  } catch (error) {
    const { message, next } = failureOf(error);
    return missing("pistis.json", message, next ?? "Correct the file");
  }
}

async function nearestExisting(path: string): Promise<string> {
  if (await pathExists(path)) return path;
  return path === dirname(path) ? path : nearestExisting(dirname(path));
}
