// The variables of each service, in a file of its own: what a service does not read is not in its file.
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Refusal } from "#shared/errors/errors.ts";
import type { NatsKeys } from "#shared/nats/keys.ts";
import type { VariableName } from "#shared/service/environment.ts";
import type { ServiceProcess } from "#shared/service/service-process.ts";
import { type StateFolder, serviceFolders, writePrivateFile } from "../state/state-folder.ts";

export type InstallValues = Readonly<{
  natsUrl: string;
  natsKeys: NatsKeys;
  databaseUrl: string;
  relayUrl: string;
  relayKey: string;
  egressKey: string;
  adminToken: string;
  installId: string;
  configFile: string | undefined;
}>;

export type EnvironmentFile = Readonly<{ service: ServiceProcess; path: string }>;

/** Writes one file per service into `env/` of the state folder, for its owner only. Files of before are replaced. */
export async function writeEnvironmentFiles(
  folder: StateFolder,
  services: readonly ServiceProcess[],
  values: InstallValues,
): Promise<EnvironmentFile[]> {
  const directory = join(folder.path, "env");
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await chmod(directory, 0o700);
  const files: EnvironmentFile[] = [];
  for (const service of services) {
    const path = join(directory, `${service.name}.env`);
    await writePrivateFile(path, environmentText(service, folder, values));
    files.push({ service, path });
  }
  return files;
}

export function environmentText(service: ServiceProcess, folder: StateFolder, values: InstallValues): string {
  const own = Object.entries(valuesFor(service, folder, values)).filter(
    ([name, value]) => value !== undefined && service.variableNames.includes(name),
  );
  return own.map(([name, value]) => `${name}=${quoted(value ?? "")}\n`).join("");
}

function valuesFor(
  { name, natsUser }: ServiceProcess,
  folder: StateFolder,
  values: InstallValues,
): Partial<Record<VariableName, string | undefined>> {
  const { blobs, relaySocketFolder, egressSocketPath, dockerProxySocketPath, relay, sandboxes, publisher } =
    serviceFolders(folder);
  const data: Readonly<Record<string, string>> = { relay, publisher, "provider-local": sandboxes };
  return {
    NATS_URL: values.natsUrl,
    PISTIS_NATS_SEED: natsUser === undefined ? undefined : values.natsKeys[natsUser].seed,
    PISTIS_NATS_EDGE_SEED: values.natsKeys["edge-scheduler"].seed,
    DATABASE_URL: values.databaseUrl,
    PISTIS_BLOBS: blobs,
    PISTIS_RELAY_URL: values.relayUrl,
    PISTIS_RELAY_KEY: values.relayKey,
    PISTIS_RELAY_SOCKETS: relaySocketFolder,
    PISTIS_EGRESS_URL: `unix:${egressSocketPath}`,
    PISTIS_EGRESS_KEY: values.egressKey,
    PISTIS_DOCKER_SOCKET: "/var/run/docker.sock",
    PISTIS_DOCKER_PROXY_SOCKET: dockerProxySocketPath,
    PISTIS_ADMIN_TOKEN: values.adminToken,
    PISTIS_INSTALL_ID: values.installId,
    PISTIS_DATA: data[name],
    PISTIS_CONFIG: values.configFile,
  };
}

/** Plain where it can be, so that other readers of such files (systemd, containers) take it too. */
function quoted(value: string): string {
  if (/^[\w@%+=:,./?&~-]+$/.test(value)) return value;
  const quote = ["'", '"', "`"].find((mark) => !value.includes(mark));
  if (quote !== undefined && !/[\r\n\\]/.test(value)) return `${quote}${value}${quote}`;
  throw new Refusal("value_unfit", "A path or an address has characters that no file of variables can hold", {
    next: "Use a state folder and addresses without line breaks, backslashes and three kinds of quotes",
  });
}
