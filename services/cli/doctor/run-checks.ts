// Everything that `pistis doctor` tries.
import { type Context, folderOf } from "../context.ts";
import { type Isolation, isolationHere } from "../dev/check-sandboxes.ts";
import type { Check } from "./check.ts";
import { checkDocker } from "./docker.ts";
import { checkConfig, checkPistisd, checkSpace, checkState } from "./places.ts";
import { checkBubblewrap, checkGit, checkNats, checkNode, checkPostgres, checkSystemTools } from "./programs.ts";

export type DoctorOptions = { json?: boolean; state?: string; config?: string };
export type Findings = Readonly<{ checks: readonly Check[]; isolation: Isolation }>;

/** Tries it all at once; what is missing is a finding and no error. */
export async function examine(context: Context, options: DoctorOptions): Promise<Findings> {
  const [checks, isolation] = await Promise.all([runChecks(context, options), isolationHere()]);
  return { checks, isolation };
}

async function runChecks(context: Context, options: DoctorOptions): Promise<Check[]> {
  const { environment, cwd } = context;
  const folder = folderOf(context, options.state);
  const docker = checkDocker(options.config, cwd, environment);
  const checks = await Promise.all([
    checkNode(process.version, process.execPath),
    checkBubblewrap(),
    checkSystemTools(),
    checkGit(),
    checkNats(environment["NATS_URL"]),
    checkPostgres(environment["DATABASE_URL"]),
    checkPistisd(),
    checkConfig(options.config, cwd, environment),
    checkState(folder, environment),
    checkSpace(folder),
  ]);
  return [...checks, ...(await docker)];
}
