// Which server the commands talk to: the one named by the environment, else the one of the state folder.
import type { Environment } from "#shared/config/interpolate.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { readAdminToken } from "../state/secrets.ts";
import { readServerFile } from "../state/server-file.ts";
import type { StateFolder } from "../state/state-folder.ts";
import { answers, type Server } from "./api.ts";

/** `undefined` when the environment names none and none runs on the state folder. */
export async function findServer(folder: StateFolder, environment: Environment): Promise<Server | undefined> {
  const named = namedServer(environment);
  if (named !== undefined) return named;
  const url = await readServerFile(folder);
  const token = await readAdminToken(folder);
  if (url === undefined || token === undefined || !(await answers(url))) return undefined;
  return { url, token };
}

export async function requireServer(folder: StateFolder, environment: Environment): Promise<Server> {
  const server = await findServer(folder, environment);
  if (server !== undefined) return server;
  throw new Refusal("no_server", `No server runs on ${folder.path}`, {
    next: "Start one with pistis dev, name its folder with --state, or set PISTIS_URL and PISTIS_TOKEN",
  });
}

function namedServer(environment: Environment): Server | undefined {
  const { PISTIS_URL: url, PISTIS_TOKEN: token } = environment;
  if (!url) return undefined;
  if (!URL.canParse(url) || !/^https?:/.test(url)) {
    throw new Refusal("url_invalid", "PISTIS_URL is no http(s) URL", { next: "For example http://127.0.0.1:4180" });
  }
  if (token) return { url, token };
  throw new Refusal("token_missing", "PISTIS_URL is set and PISTIS_TOKEN is not", {
    next: "Set PISTIS_TOKEN to the admin token that the server printed at its first start",
  });
}
