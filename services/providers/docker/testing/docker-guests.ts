// For tests that need no relay: in place of pistisd a shell that notes its join token's hash and waits; commands go in by
// `docker exec`. And what looks at the engine from outside the provider.
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { dockerSandboxes } from "#schemas/config/docker-sandboxes.ts";
import { installKey, LABELS } from "#shared/docker/names.ts";
import { silentLog } from "#shared/service/log.ts";
import type { ProviderUnderTest } from "../../provider.contract.ts";
import type { DockerSetting } from "../docker.ts";
import { openDockerProvider } from "../docker-provider.ts";

const execute = promisify(execFile);

export const DEBIAN = "debian:bookworm-slim";
/** Made by infra/images/bases.sh: no glibc, and no more than busybox. */
export const MUSL = "pistis-base/musl";

const ENTRY = `#!/bin/sh
trap 'exit 0' TERM
sha256sum < "$PISTIS_JOIN_TOKEN_FILE" > /home/pistis/token-hash
rm -f "$PISTIS_JOIN_TOKEN_FILE"
while :; do
  sleep 1000 &
  wait $!
done
`;

/** One engine, as its command line sees it. */
export type Cli = (...args: string[]) => Promise<string>;

export function dockerCli(host = "unix:///var/run/docker.sock"): Cli {
  return async (...args) => {
    const { stdout } = await execute("docker", ["--host", host, ...args], { maxBuffer: 64 * 1024 * 1024 });
    return stdout;
  };
}

export type DockerGuests = ProviderUnderTest &
  Readonly<{ folder: string; setting: DockerSetting; cli: Cli; container: (sandboxId: string) => Promise<string> }>;

export type GuestOptions = Readonly<{ image?: string; docker?: Partial<DockerSetting["docker"]> }>;

/** A Docker provider of an install of its own. */
export async function openDockerGuests({ image = DEBIAN, docker = {} }: GuestOptions = {}): Promise<DockerGuests> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-docker-"));
  const setting = await guestSetting(folder, { image, docker });
  const cli = dockerCli(setting.docker.host);
  const provider = await openDockerProvider(setting);
  const container = async (sandboxId: string) => (await idsOf(cli, setting.installId, sandboxId))[0] ?? "";
  return {
    ...{ folder, setting, cli, provider, container },
    openOther: () => openDockerProvider({ ...setting, installId: `${folder}-other` }),
    crash: async (sandboxId) => void (await cli("kill", await container(sandboxId))),
    run: async (sandboxId, command) => cli("exec", await container(sandboxId), "sh", "-c", command),
    dispose: async () => {
      await provider.close();
      await removeInstalls(cli, [setting.installId, `${folder}-other`]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export async function guestSetting(
  folder: string,
  { image = DEBIAN, docker = {} }: GuestOptions,
): Promise<DockerSetting> {
  const pistisdFolder = join(folder, "pistisd");
  await mkdir(join(folder, "relay"), { recursive: true });
  await mkdir(pistisdFolder, { recursive: true });
  await writeFile(join(pistisdFolder, "pistisd-entry"), ENTRY);
  await chmod(join(pistisdFolder, "pistisd-entry"), 0o755);
  return {
    installId: folder,
    relaySocketFolder: join(folder, "relay"),
    pistisdFolder,
    image,
    docker: { ...dockerSandboxes.parse({}), ...docker },
    stopAtClose: false,
    // No other provider of the install is making anything while a test opens the next one.
    abandonedAfterMs: 0,
    log: silentLog,
  };
}

/** Containers of an install or of one of its sandboxes. */
export async function idsOf(cli: Cli, installId: string, sandboxId?: string): Promise<string[]> {
  const own = ["--filter", `label=${LABELS.install}=${installKey(installId)}`];
  const one = sandboxId === undefined ? [] : ["--filter", `label=${LABELS.sandbox}=${sandboxId}`];
  return lines(await cli("ps", "-aq", "--no-trunc", ...own, ...one));
}

/** All that an install has on the engine, but for pistisd's volume. */
export async function leftOf(cli: Cli, installId: string): Promise<string[]> {
  const own = ["--filter", `label=${LABELS.install}=${installKey(installId)}`];
  const [containers, networks, volumes] = await Promise.all([
    cli("ps", "-a", "--format", "{{.Names}}", ...own),
    cli("network", "ls", "--format", "{{.Name}}", ...own),
    cli("volume", "ls", "--format", "{{.Name}}", ...own),
  ]);
  return [containers, networks, volumes].flatMap(lines).filter((name) => !/-pistisd-[0-9a-f]{16}$/.test(name));
}

export async function removeInstalls(cli: Cli, installIds: readonly string[]): Promise<void> {
  for (const installId of installIds) {
    const own = ["--filter", `label=${LABELS.install}=${installKey(installId)}`];
    const containers = lines(await cli("ps", "-aq", ...own));
    if (containers.length > 0) await cli("rm", "-f", "-v", ...containers);
    for (const network of lines(await cli("network", "ls", "-q", ...own))) await cli("network", "rm", network);
    for (const volume of lines(await cli("volume", "ls", "-q", ...own))) await cli("volume", "rm", volume);
  }
}

export function lines(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}
