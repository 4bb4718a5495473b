// The one file of the daemon that reads its environment. The same program is also `pi-env` and the jobs that run apart.
import { accessSync, constants, readFileSync, rmSync, writeSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { Log } from "#shared/service/log.ts";
import { commandEnvironment, hasWayOut } from "./commands/environment.ts";
import { runSearchJob } from "./files/search-job.ts";
import { openSystem } from "./native/system.ts";
import { type Dismissal, startPistisd, VERSION } from "./pistisd.ts";
import { runProbeJob } from "./probe/job.ts";

/** Exit codes; pistisd-entry starts the daemon again after any other one. */
const ExitCode = { stopped: 0, usage: 64, dismissed: 78 } as const;

function main(): void {
  const [mode, argument] = process.argv.slice(2);
  if (mode === "search" && argument !== undefined) print(JSON.stringify(runSearchJob(argument)));
  else if (mode === "probe" && argument !== undefined) print(JSON.stringify(runProbeJob(argument)));
  else if (mode === "--version") print(`pistisd ${VERSION}\n`);
  else if (mode === "pi-env" || basename(process.argv0) === "pi-env") printEnvironment();
  else if (mode === undefined) void runDaemon();
  else {
    print(`Unknown argument ${mode}\n`);
    process.exit(ExitCode.usage);
  }
}

function printEnvironment(): void {
  const entries = Object.entries(commandEnvironment(process.env));
  print(entries.map(([name, value]) => `${name}=${value}\n`).join(""));
}

async function runDaemon(): Promise<void> {
  const { env } = process;
  process.on("uncaughtException", (error) =>
    log.error({ error: String(error.stack) }, "Something failed that should not"),
  );
  process.on("unhandledRejection", (error) => log.error({ error: String(error) }, "Something failed that should not"));
  try {
    const pistisd = await startPistisd({
      relay: env["PISTIS_RELAY"] ?? env["PISTIS_RELAY_URL"] ?? "",
      joinToken: takeJoinToken(env["PISTIS_JOIN_TOKEN_FILE"]),
      stateDirectory: env["PISTISD_STATE"] || "/var/lib/pistisd",
      root: env["PISTISD_ROOT"] || "/workspace",
      shell: ["/bin/bash", "/usr/bin/bash"].find(isExecutable) ?? "/bin/sh",
      wayOut: hasWayOut(env),
      environment: commandEnvironment(env),
      system: openSystem(),
      self: selfCommand(env["PISTISD_LOADER"]),
      log,
    });
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => void pistisd.close());
    exitAfter(await pistisd.dismissed);
  } catch (error) {
    log.error({ error: String(error) }, "pistisd cannot go on");
    process.exit(ExitCode.dismissed);
  }
}

function exitAfter(dismissal: Dismissal): never {
  log.info({ dismissal }, "pistisd ends");
  process.exit(dismissal === "stopped" ? ExitCode.stopped : ExitCode.dismissed);
}

/** The file is gone before anything else of the sandbox can look. */
function takeJoinToken(path: string | undefined): string | undefined {
  if (path === undefined || path === "") return undefined;
  try {
    const token = readFileSync(path, "utf8").trim();
    rmSync(path, { force: true });
    return token === "" ? undefined : token;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** Where there is no glibc, the program is started through its own loader. */
function selfCommand(loader: string | undefined): string[] {
  if (loader === undefined || loader === "") return [process.execPath];
  const folder = resolve(loader);
  return [`${folder}/lib/ld.so`, "--library-path", `${folder}/lib`, `${folder}/pistisd`];
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error) return false;
    throw error;
  }
}

function print(text: string): void {
  for (let bytes = Buffer.from(text); bytes.byteLength > 0; ) bytes = bytes.subarray(writeSync(1, bytes));
}

const log: Log = {
  debug: () => undefined,
  info: (fields, text) => writeLog("info", fields, text),
  warn: (fields, text) => writeLog("warn", fields, text),
  error: (fields, text) => writeLog("error", fields, text),
};

function writeLog(level: string, fields: object, text: string): void {
  writeSync(
    2,
    `${JSON.stringify({ level, time: new Date().toISOString(), service: "pistisd", ...fields, msg: text })}\n`,
  );
}

main();
