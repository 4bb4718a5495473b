// Programs that Pistis runs, each tried and not only looked for.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { presentNatsServer } from "#shared/embedded/find-nats-server.ts";
import { findPostgres } from "#shared/embedded/postgres-binaries.ts";
import { connectionProblem } from "#shared/embedded/postgres-connection.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { checkSandboxes } from "../dev/check-sandboxes.ts";
import { type Check, missing, ok, warn } from "./check.ts";

const run = promisify(execFile);
const RUN_MS_MAX = 10_000;
const NODE_MIN = [22, 18] as const;
const NODE_PINNED_MAJOR = 24;

export function checkNode(version: string, path: string): Check {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  const next = "Run npm ci: it brings the pinned Node in node_modules, which the pistis launcher then uses";
  if (major < NODE_MIN[0] || (major === NODE_MIN[0] && minor < NODE_MIN[1]))
    return missing("Node", `${version}, too old`, next);
  return major === NODE_PINNED_MAJOR
    ? ok("Node", `${version} (${path})`)
    : warn("Node", `${version}, not the tested one`, next);
}

export async function checkBubblewrap(): Promise<Check> {
  try {
    const { bubblewrap } = await checkSandboxes();
    return ok("bubblewrap", `${bubblewrap}, and a sandbox with namespaces of its own starts`);
  } catch (error) {
    const { message, next } = failureOf(error);
    return missing("bubblewrap", message, next ?? "apt-get install -y bubblewrap");
  }
}

export async function checkGit(): Promise<Check> {
  const version = await versionOf("git");
  return version === undefined ? missing("git", "not found", "apt-get install -y git") : ok("git", version);
}

export async function checkSystemTools(): Promise<Check> {
  const tools = ["flock", "setpriv", "unshare"];
  const found = await Promise.all(tools.map(versionOf));
  const absent = tools.filter((_, index) => found[index] === undefined);
  if (absent.length === 0) return ok("util-linux", tools.join(", "));
  return missing("util-linux", `no ${absent.join(", ")}`, "apt-get install -y util-linux");
}

/** `url`: of a NATS server of one's own, which only the services' keys open; its version is seen at the start. */
export async function checkNats(url: string | undefined): Promise<Check> {
  if (url) return ok("nats-server", "your own, by NATS_URL; a version under 2.10 is warned about at the start");
  const server = await presentNatsServer();
  if (server === undefined) {
    const next = "Nothing to do: the first start downloads one by apt. Or install nats-server 2.10 or later";
    return warn("nats-server", "not here yet", next);
  }
  if (server.durable) return ok("nats-server", `${server.version}, sync_interval: always (${server.command})`);
  const found = `${server.version}: NOT DURABLE, a power loss can take minutes of acknowledged events with it`;
  return warn("nats-server", found, "Install nats-server 2.10 or later, or let pistis dev download one by apt");
}

export async function checkPostgres(url: string | undefined): Promise<Check> {
  if (url) {
    const problem = await connectionProblem(url);
    if (problem === undefined) return ok("PostgreSQL", "your own, by DATABASE_URL, and it answers");
    return missing(
      "PostgreSQL",
      `DATABASE_URL does not answer: ${problem.message}`,
      "Correct DATABASE_URL, or unset it",
    );
  }
  try {
    const { postgres, source } = await findPostgres();
    const { stdout } = await run(postgres, ["--version"], { timeout: RUN_MS_MAX });
    return ok("PostgreSQL", `${stdout.trim().replace(/^postgres \(PostgreSQL\) /, "")}, embedded (from ${source})`);
  } catch (error) {
    const { message, next } = failureOf(error);
    return missing("PostgreSQL", message, next ?? "Run npm ci again, or apt-get install -y postgresql");
  }
}

async function versionOf(program: string): Promise<string | undefined> {
  return run(program, ["--version"], { timeout: RUN_MS_MAX }).then(
    ({ stdout }) =>
      stdout
        .trim()
        .split("\n")[0]
        ?.replace(/^.*?(?=\d)/, ""),
    () => undefined,
  );
}
