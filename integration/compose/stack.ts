// docker-compose.yml as a team starts it, under a project name, an `.env` and a port of its own, on images built here.
import { execFile } from "node:child_process";
import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseEnv, promisify } from "node:util";
import { z } from "zod";
import type { Server } from "#services/cli/client/api.ts";
import { installKey, LABELS } from "#shared/docker/names.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { buildImages, docker } from "../images/containers.ts";
import { stablePort } from "../testing/processes/ports.ts";

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, "../..");
const COMPOSE_FILE = join(ROOT, "docker-compose.yml");
const HEALTHY_MS_MAX = 240_000;
const PROJECT = "com.docker.compose.project";

/** As much of `docker inspect` as the tests look at. */
const inspected = z.object({
  Id: z.string(),
  State: z.object({
    Status: z.string(),
    Pid: z.number(),
    ExitCode: z.number(),
    Health: z.object({ Status: z.string() }).optional(),
  }),
  Config: z.object({ Env: z.array(z.string()), Labels: z.record(z.string(), z.string()), User: z.string() }),
  HostConfig: z.object({
    Privileged: z.boolean(),
    ReadonlyRootfs: z.boolean(),
    CapDrop: z.array(z.string()).nullable(),
    SecurityOpt: z.array(z.string()).nullable(),
    NetworkMode: z.string(),
    RestartPolicy: z.object({ Name: z.string() }),
  }),
  NetworkSettings: z.object({
    Ports: z.record(z.string(), z.array(z.object({ HostIp: z.string(), HostPort: z.string() })).nullable()),
  }),
  Mounts: z.array(
    z.object({ Source: z.string(), Destination: z.string(), RW: z.boolean(), Name: z.string().optional() }),
  ),
});

export type Inspected = z.output<typeof inspected>;
/** `service`: its name in docker-compose.yml. */
export type StackContainer = Inspected & Readonly<{ service: string }>;

export type Stack = Readonly<{
  project: string;
  environment: Readonly<Record<string, string>>;
  server: Server;
  compose: (...args: string[]) => Promise<string>;
  containers: () => Promise<StackContainer[]>;
  /** Resolves when every service is healthy and every one-off task has ended well. */
  healthy: () => Promise<void>;
  /** What is on the engine of the project and of the install's sandboxes. */
  leftovers: () => Promise<string[]>;
  /** infra/compose/remove.sh; does nothing the second time. */
  remove: () => Promise<void>;
  close: () => Promise<void>;
}>;

export async function openStack(): Promise<Stack> {
  await buildImages("pistisd", "sandbox", "server", "nats", "postgres");
  const folder = await mkdtemp(join(tmpdir(), "pistis-compose-"));
  const file = join(folder, ".env");
  const port = await stablePort();
  await run(process.execPath, [join(ROOT, "services/cli/main.ts"), "compose-env", "--file", file]);
  await appendFile(
    file,
    `PISTIS_LISTEN=127.0.0.1:${port}\nPISTIS_NATS_IMAGE=pistis/nats\nPISTIS_POSTGRES_IMAGE=pistis/postgres\n`,
  );
  const environment = z.record(z.string(), z.string()).parse(parseEnv(await readFile(file, "utf8")));
  const project = `pistis-test-${newSecret()
    .slice(0, 10)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "x")}`;
  const command = await composeCommand();
  const compose = async (...args: string[]) => {
    const options = ["--file", COMPOSE_FILE, "--project-name", project, "--env-file", file, ...args];
    const { stdout } = await run(command[0], [...command.slice(1), ...options], { cwd: ROOT, env: plainEnvironment() });
    return stdout;
  };
  const containers = () => containersOf(project);
  const remove = async () => {
    const env = { ...plainEnvironment(), PISTIS_ENV_FILE: file, COMPOSE_PROJECT_NAME: project };
    await run("bash", [join(ROOT, "infra/compose/remove.sh"), "--yes"], { cwd: ROOT, env });
  };
  return {
    project,
    environment,
    server: { url: `http://127.0.0.1:${port}`, token: environment["PISTIS_ADMIN_TOKEN"] ?? "" },
    compose,
    containers,
    healthy: () => untilHealthy(containers),
    leftovers: () => leftoversOf(project, environment["PISTIS_INSTALL_ID"] ?? ""),
    remove,
    close: async () => {
      await remove();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Version 2 where it is installed, else 1.29. */
async function composeCommand(): Promise<[string, ...string[]]> {
  return run("docker", ["compose", "version"]).then(
    () => ["docker", "compose"],
    () => ["docker-compose"],
  );
}

/** Compose prefers a variable of its own environment to one of the file. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const { PATH, HOME, DOCKER_HOST } = process.env;
  return { PATH, HOME, ...(DOCKER_HOST === undefined ? {} : { DOCKER_HOST }) };
}

async function containersOf(project: string): Promise<StackContainer[]> {
  const ids = lines(await docker("ps", "--all", "--quiet", "--filter", `label=${PROJECT}=${project}`));
  if (ids.length === 0) return [];
  const found = z.array(inspected).parse(JSON.parse(await docker("inspect", ...ids)));
  return found.map((one) => ({ ...one, service: one.Config.Labels["com.docker.compose.service"] ?? "" }));
}

async function untilHealthy(containers: () => Promise<StackContainer[]>): Promise<void> {
  const deadline = performance.now() + HEALTHY_MS_MAX;
  for (;;) {
    const waiting = (await containers()).filter((one) => !isWell(one));
    if (waiting.length === 0) return;
    if (performance.now() > deadline)
      throw new Error(`Not healthy:\n${(await Promise.all(waiting.map(told))).join("\n")}`);
    await delay(100);
  }
}

function isWell({ State, HostConfig }: Inspected): boolean {
  if (HostConfig.RestartPolicy.Name === "no") return State.Status === "exited" && State.ExitCode === 0;
  return State.Status === "running" && State.Health?.Status === "healthy";
}

async function told({ Id, service, State }: StackContainer): Promise<string> {
  const { stdout, stderr } = await run("docker", ["logs", "--tail", "20", Id]);
  return `${service}: ${State.Status} ${State.Health?.Status ?? ""}\n${stdout}${stderr}`;
}

async function leftoversOf(project: string, installId: string): Promise<string[]> {
  const labels = [`label=${PROJECT}=${project}`, `label=${LABELS.install}=${installKey(installId)}`];
  const found = labels.map(async (label) => [
    ...lines(await docker("ps", "--all", "--format", "{{.Names}}", "--filter", label)),
    ...lines(await docker("network", "ls", "--format", "{{.Name}}", "--filter", label)),
    ...lines(await docker("volume", "ls", "--format", "{{.Name}}", "--filter", label)),
  ]);
  return (await Promise.all(found)).flat();
}

function lines(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}
