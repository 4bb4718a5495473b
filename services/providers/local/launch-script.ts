// What runs between this process and bubblewrap, and between bubblewrap and pistisd. Each line execs the next, so
// that the process which node started is the one that dies with it.

export const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Folder on which a root-run launch shows its sources; bubblewrap's own root covers it afterwards. */
const STAGED_AT = "/tmp";

const JOIN_GROUPS = `while [ "$1" != -- ]; do echo 0 > "$1"; shift; done; shift`;

/**
 * The sandbox's user may not be able to walk to the state folder (it may be below a locked home), so root shows it
 * the sources in a mount namespace of its own, then becomes that user.
 */
const AS_ROOT = `set -e
stage=$1 uid=$2; shift 2
${JOIN_GROUPS}
mount -t tmpfs -o mode=755,size=64k pistis "$stage"
n=0
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "$stage/$n"; else : > "$stage/$n"; fi
  mount --rbind -- "$1" "$stage/$n"
  n=$((n + 1)); shift
done; shift
mount --move "$stage" ${STAGED_AT}
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"`;

const AS_USER = `set -e
${JOIN_GROUPS}
exec "$@"`;

export type Launch = Readonly<{ groupFiles: readonly string[]; stage: string; uid: number; argsDescriptor: number }>;

/** The command line that node starts, and where `sources` are for bubblewrap. */
export function launchCommand(launch: Launch, root: boolean, sources: readonly string[], inner: readonly string[]) {
  const { groupFiles, stage, uid, argsDescriptor } = launch;
  const bwrap = ["bwrap", "--args", `${argsDescriptor}`, "--", ...inner];
  if (!root) return { command: ["/bin/sh", "-c", AS_USER, "launch", ...groupFiles, "--", ...bwrap], seen: sources };
  const staged = ["/bin/sh", "-c", AS_ROOT, "launch", stage, `${uid}`, ...groupFiles, "--", ...sources, "--", ...bwrap];
  return {
    command: ["unshare", "--mount", "--propagation", "private", "--", ...staged],
    seen: sources.map((_, index) => `${STAGED_AT}/${index}`),
  };
}

/** pistisd's compiler sets this much aside without using it, and cannot do without. */
const JIT_MIB = 1_280;

/** pistisd keeps so many for itself, so that a fork bomb does not end it: services/pistisd/native/process-limit.ts. */
export const DAEMON_PROCESSES = 64;

export type ProcessLimits = Readonly<{ processesMax: number; fileMiBMax: number; memoryMiBMax: number | undefined }>;

/**
 * Runs first in the sandbox: limits of one process, one byte to say that the isolation stands, then pistisd's entry.
 * The number of processes counts in the sandbox's own user namespace. Shells differ in the letter for it.
 */
export function guestCommand(label: string, limits: ProcessLimits, readyDescriptor: number, entry: string): string[] {
  const { fileMiBMax, memoryMiBMax } = limits;
  const processesMax = limits.processesMax + DAEMON_PROCESSES;
  const script = [
    "set -e",
    `ulimit -p ${processesMax} 2>/dev/null || ulimit -u ${processesMax}`,
    `ulimit -f ${fileMiBMax * 2048}`,
    ...(memoryMiBMax === undefined ? [] : [`ulimit -d ${(memoryMiBMax + JIT_MIB) * 1024}`]),
    `echo ready >&${readyDescriptor}`,
    `exec ${readyDescriptor}>&-`,
    `exec ${entry}`,
  ];
  return ["/bin/sh", "-c", script.join("\n"), label];
}
