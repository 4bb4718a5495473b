// What a sandbox sees of this machine: its programs and libraries, read-only, and of /etc only what they need. No
// home, no /root, no /var, no /run, no system-wide configuration of git or npm, which may hold a credential.
import { lstatSync, readlinkSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

export const GUEST_UID = 1000;
export const GUEST_HOME = "/home/pistis";
export const RELAY_FOLDER = "/run/pistis";
export const PISTISD_FOLDER = "/opt/pistis";
export const PISTISD_STATE = "/var/lib/pistisd";
export const JOIN_TOKEN_FILE = "/run/pistis-join/token";

const TMP_BYTES = 1024 * 1024 * 1024;
const SHM_BYTES = 256 * 1024 * 1024;

const TOP_FOLDERS = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/** Absent ones are skipped. */
const ETC = [
  "alternatives",
  "ca-certificates.conf",
  "crypto-policies",
  "debian_version",
  "fonts",
  "java",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "magic",
  "mime.types",
  "os-release",
  "pki/tls/certs",
  "protocols",
  "python3",
  "services",
  "ssl/certs",
  "ssl/openssl.cnf",
  "terminfo",
  "timezone",
];

/** Inside /usr, but a place for an administrator's configuration: npm's global one may hold a token. */
const HIDDEN = ["/usr/etc", "/usr/local/etc"];

const GUEST_FILES = {
  passwd: `root:x:0:0:root:/root:/usr/sbin/nologin\npistis:x:${GUEST_UID}:${GUEST_UID}:Pistis:${GUEST_HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
  group: `root:x:0:\npistis:x:${GUEST_UID}:\nnogroup:x:65534:\n`,
  hosts: "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n",
  hostname: "sandbox\n",
  "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
  "resolv.conf": "# This sandbox has no network.\n",
};

/** Files that are the same for every sandbox. Answers their folder. */
export async function writeGuestFiles(stateDir: string): Promise<string> {
  const folder = join(stateDir, "guest");
  await mkdir(folder, { recursive: true, mode: 0o755 });
  for (const [name, text] of Object.entries(GUEST_FILES)) await writeFile(join(folder, name), text, { mode: 0o644 });
  return folder;
}

/** Where what belongs to one sandbox is on this machine. */
export type GuestSources = Readonly<{
  sandbox: string;
  guestFiles: string;
  pistisd: string;
  relay: string;
  /** Path inside → path here. */
  readOnly: { readonly [inside: string]: string };
}>;

export type GuestDescriptors = Readonly<{ info: number; token: number; seccomp: number | undefined }>;

/** bubblewrap's arguments up to the command. */
export function guestArguments(sources: GuestSources, descriptors: GuestDescriptors, env: Record<string, string>) {
  return [
    ...["--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1"],
    ...["--uid", `${GUEST_UID}`, "--gid", `${GUEST_UID}`, "--hostname", "sandbox", "--chdir", "/workspace"],
    ...["--info-fd", `${descriptors.info}`],
    ...(descriptors.seccomp === undefined ? [] : ["--seccomp", `${descriptors.seccomp}`]),
    ...systemArguments(),
    ...etcArguments(sources.guestFiles),
    ...["--proc", "/proc", "--dev", "/dev", "--size", `${SHM_BYTES}`, "--perms", "1777", "--tmpfs", "/dev/shm"],
    ...["--size", `${TMP_BYTES}`, "--perms", "1777", "--tmpfs", "/tmp"],
    ...Object.entries(sources.readOnly).flatMap(([inside, here]) => ["--ro-bind", here, inside]),
    ...["--bind", join(sources.sandbox, "workspace"), "/workspace"],
    ...["--bind", join(sources.sandbox, "home"), GUEST_HOME],
    ...["--bind", join(sources.sandbox, "pistisd"), PISTISD_STATE],
    ...["--ro-bind", sources.pistisd, PISTISD_FOLDER, "--ro-bind", sources.relay, RELAY_FOLDER],
    ...["--size", "65536", "--perms", "0700", "--tmpfs", "/run/pistis-join"],
    ...["--perms", "0600", "--file", `${descriptors.token}`, JOIN_TOKEN_FILE],
    ...["--remount-ro", "/dev", "--remount-ro", "/", "--clearenv"],
    ...Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value]),
  ];
}

function systemArguments(): string[] {
  const top = TOP_FOLDERS.flatMap((path) => {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return [];
    return stat.isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path];
  });
  const hidden = HIDDEN.filter((path) => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true);
  return ["--ro-bind", "/usr", "/usr", ...top, ...hidden.flatMap((path) => ["--size", "4096", "--tmpfs", path])];
}

function etcArguments(guestFiles: string): string[] {
  const own = Object.keys(GUEST_FILES).flatMap((name) => ["--ro-bind", join(guestFiles, name), `/etc/${name}`]);
  return [...ETC.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]), ...own];
}
