// Real containers that join a relay of the tests', started as a person starts them: with `docker run`.
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { adminKey, type RelayUnderTest, registerToken } from "#services/relay/tests/relay-under-test.ts";
import { newId, newSecret } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { openRelayLinks } from "#shared/sandbox-link/relay-link.ts";
import { silentLog } from "#shared/service/log.ts";

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, "../..");
const JOIN_MS_MAX = 20_000;
const COMMAND_MS_MAX = 60_000;
const WAIT_MS_MAX = 10_000;
const BUILD_MS_MAX = 600_000;
const OUTPUT_BYTES = 64 * 1024;
const LABEL = "pistis.image-test";

export type Container = Readonly<{ name: string; sandboxId: string; token: string; link: SandboxLink }>;

/** Its standard output. Rejects with its standard error. */
export async function docker(...args: string[]): Promise<string> {
  const { stdout } = await run("docker", args, { maxBuffer: 64 * 1024 * 1024 });
  return stdout.trim();
}

const built = new Set<string>();

/** As `npm run images NAME...`; each once in a run of the tests. */
export async function buildImages(...names: string[]): Promise<void> {
  const missing = names.filter((name) => !built.has(name));
  if (missing.length === 0) return;
  const options = { cwd: ROOT, timeout: BUILD_MS_MAX };
  await run(process.execPath, [join(ROOT, "infra/images/build.ts"), ...missing], options);
  for (const name of missing) built.add(name);
}

/** An image of a Dockerfile's text alone; removed by `removeAll`. */
export async function buildImage(dockerfile: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-image-"));
  const image = `pistis-image-test/${newSecret()
    .slice(0, 12)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "x")}`;
  try {
    await writeFile(join(folder, "Dockerfile"), dockerfile);
    await docker("build", "--network", "none", "--label", LABEL, "--tag", image, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return image;
}

/** With no network but the relay's socket, and the token in its environment. */
export async function startContainer(relay: RelayUnderTest, image: string): Promise<Container> {
  const sandboxId = newId("sandbox");
  const { token } = await registerToken(relay, sandboxId);
  const name = await launch(relay, image, { sandboxId, token });
  const openLink = openRelayLinks({ relayUrl: relay.url, adminKey, reattachMs: JOIN_MS_MAX, log: silentLog });
  const link = openLink({ sandboxId, role: "brain", epoch: 1 });
  relay.resources.add(`link to ${sandboxId}`, link, (open) => open.close());
  await link.ready(JOIN_MS_MAX).catch(async (cause: unknown) => {
    throw new Error(`${image} did not join: ${await docker("logs", name)}`, { cause });
  });
  return { name, sandboxId, token, link };
}

/** Starts one and does not wait for it. */
export async function launch(
  relay: RelayUnderTest,
  image: string,
  { sandboxId, token }: Pick<Container, "sandboxId" | "token">,
): Promise<string> {
  const name = `pistis-image-test-${newSecret().slice(0, 12)}`;
  const bounds = ["--network", "none", "--pids-limit", "256", "--memory", "1g", "--security-opt", "no-new-privileges"];
  const variables = [
    "-e",
    `PISTIS_JOIN_TOKEN=${token}`,
    "-e",
    `PISTIS_RELAY=unix:/run/pistis/${relaySocketName(sandboxId)}`,
  ];
  const mount = ["-v", `${relay.socketFolder}:/run/pistis:ro`];
  await docker("run", "-d", "--name", name, "--label", LABEL, ...bounds, ...variables, ...mount, image);
  return name;
}

export async function shell({ link }: Container, command: string): Promise<string> {
  const excerpt = { headBytes: OUTPUT_BYTES, tailBytes: OUTPUT_BYTES };
  const request = { callId: newId("call"), command, timeoutMs: COMMAND_MS_MAX, background: false, excerpt };
  const seen: Uint8Array[] = [];
  await link.exec(request, { onOutput: ({ bytes }) => void seen.push(bytes) });
  return Buffer.concat(seen).toString();
}

/** The environments of all its processes, as the host sees them: `docker exec` would add what the container was given. */
export async function environmentsOf({ name }: Container): Promise<string[]> {
  const first = await docker("inspect", "--format", "{{.State.Pid}}", name);
  const space = readlinkSync(`/proc/${first}/ns/pid`);
  const own = readdirSync("/proc").filter((entry) => {
    return /^\d+$/.test(entry) && unlessGone(() => readlinkSync(`/proc/${entry}/ns/pid`)) === space;
  });
  return own.flatMap((pid) => unlessGone(() => readFileSync(`/proc/${pid}/environ`, "latin1")) ?? []);
}

/** A process may end at any moment, and some of the host's show nothing, not even to root. */
function unlessGone(read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof Error && "code" in error && ["ENOENT", "ESRCH", "EACCES"].includes(String(error.code))) return;
    throw error;
  }
}

/** Polls what announces no event. Rejects when it does not hold in time. */
export async function whenever(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`Not within ${WAIT_MS_MAX} ms: ${what}`);
    await delay(20);
  }
}

export async function removeContainers(): Promise<void> {
  const containers = await docker("ps", "--all", "--quiet", "--filter", `label=${LABEL}`);
  if (containers !== "") await docker("rm", "--force", "--volumes", ...containers.split("\n"));
}

export async function removeAll(): Promise<void> {
  await removeContainers();
  const images = await docker("images", "--quiet", "--filter", `label=${LABEL}`);
  if (images !== "") await docker("rmi", "--force", ...new Set(images.split("\n")));
}
