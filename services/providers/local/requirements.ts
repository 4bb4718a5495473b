// Whether this machine can isolate at all, and if not, what to do about it.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Refusal } from "#shared/errors/errors.ts";
import { SYSTEM_PATH } from "./launch-script.ts";

const run = promisify(execFile);
const VERSION_MIN: readonly [number, number] = [0, 8];

/**
 * Resolves with bubblewrap's version when a sandbox can be made by this user (root makes them as another user).
 * Throws Refusal `not_linux`, `bubblewrap_missing`, `bubblewrap_too_old` or `isolation_unavailable`.
 */
export async function checkRequirements(path = SYSTEM_PATH): Promise<{ bubblewrap: string }> {
  if (process.platform !== "linux") {
    throw new Refusal("not_linux", `The local provider needs Linux, this is ${process.platform}`, {
      next: "Run Pistis in a Linux machine, virtual machine or container.",
    });
  }
  const bubblewrap = await bubblewrapVersion(path);
  const [major = 0, minor = 0] = bubblewrap.split(".").map(Number);
  if (major < VERSION_MIN[0] || (major === VERSION_MIN[0] && minor < VERSION_MIN[1])) {
    throw new Refusal("bubblewrap_too_old", `bubblewrap ${bubblewrap} is older than ${VERSION_MIN.join(".")}`, {
      next: "Install a newer one: apt-get install -y bubblewrap (Debian 12, Ubuntu 24.04 or newer).",
    });
  }
  await tryOut(path);
  return { bubblewrap };
}

async function bubblewrapVersion(path: string): Promise<string> {
  const { stdout } = await run("bwrap", ["--version"], { env: { PATH: path } }).catch((cause: unknown) => {
    throw new Refusal("bubblewrap_missing", "bubblewrap (bwrap) is not installed", {
      cause,
      next: "apt-get install -y bubblewrap",
    });
  });
  return stdout.trim().replace(/^bubblewrap /, "");
}

/** As the user that sandboxes run as: what root may do says nothing about it. */
async function tryOut(path: string): Promise<void> {
  const probe = ["bwrap", "--unshare-user", "--unshare-all", "--disable-userns", "--ro-bind", "/", "/", "true"];
  const root = process.getuid?.() === 0;
  const asOther = ["unshare", "--mount", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
  const [command = "", ...args] = root ? [...asOther, ...probe] : probe;
  await run(command, args, { env: { PATH: path }, cwd: "/" }).catch((cause: unknown) => {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new Refusal("isolation_unavailable", `This machine lets no sandbox be made: ${text.trim().slice(-300)}`, {
      cause,
      next:
        "Allow user namespaces: sysctl -w user.max_user_namespaces=10000, and where they exist " +
        "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0. In a container, " +
        "start it with --privileged, or with --cap-add SYS_ADMIN --security-opt seccomp=unconfined " +
        "--security-opt apparmor=unconfined --security-opt systempaths=unconfined.",
    });
  });
}
