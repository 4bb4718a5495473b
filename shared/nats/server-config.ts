import { CORE_USERS, EDGE_USERS, type NatsKeys } from "./keys.ts";
import { corePermissions, edgePermissions, type Permissions } from "./permissions.ts";

export type NatsServerOptions = Readonly<{
  storeDir: string;
  host: string;
  /** -1: the server chooses a free one. */
  port: number;
  pidFile: string;
  /** As in pistis.json: consumers are named by shard and each is allowed by name. */
  shards: number;
  /** Write to disk before every acknowledgement. Servers before 2.10 do not know the setting. */
  syncAlways: boolean;
}>;

const PAYLOAD_BYTES_MAX = 1024 * 1024;
/** How long a client may take to say who it is. The server's own 2 s are too short where a whole install starts at once. */
const AUTHORIZATION_SECONDS = 10;

/** The text of nats-server's configuration: two accounts, one nkey user per service, JetStream on disk. */
export function natsServerConfig(keys: NatsKeys, options: NatsServerOptions): string {
  const core = CORE_USERS.map((user) => userBlock(keys[user].publicKey, corePermissions(user, options.shards)));
  const edge = EDGE_USERS.map((user) => userBlock(keys[user].publicKey, edgePermissions(user)));
  return [
    `listen: ${quoted(`${options.host}:${options.port}`)}`,
    `server_name: "pistis"`,
    `pid_file: ${quoted(options.pidFile)}`,
    `max_payload: ${PAYLOAD_BYTES_MAX}`,
    `authorization { timeout: ${AUTHORIZATION_SECONDS} }`,
    `jetstream {`,
    `  store_dir: ${quoted(options.storeDir)}`,
    ...(options.syncAlways ? ["  sync_interval: always"] : []),
    `}`,
    `accounts {`,
    `  CORE { jetstream: enabled, users: [`,
    ...core,
    `  ] }`,
    `  EDGE { jetstream: enabled, users: [`,
    ...edge,
    `  ] }`,
    `}`,
    "",
  ].join("\n");
}

function userBlock(publicKey: string, permissions: Permissions | undefined): string {
  if (permissions === undefined) return `    { nkey: ${publicKey} }`;
  const publish = `{ allow: ${list(permissions.publish)}, deny: ${list(permissions.deny)} }`;
  const subscribe = `{ allow: ${list(permissions.subscribe)} }`;
  return `    { nkey: ${publicKey}, permissions: { publish: ${publish}, subscribe: ${subscribe} } }`;
}

function list(subjects: readonly string[]): string {
  return `[${subjects.map(quoted).join(", ")}]`;
}

function quoted(text: string): string {
  return JSON.stringify(text);
}
