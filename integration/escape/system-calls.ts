// System calls that lead out of a sandbox, each made with arguments that would do no harm if it worked. They are made by
// perl, which every Debian has, with the numbers of x64 and arm64.

type Argument = number | string;

export type SystemCall = Readonly<{ name: string; x64: number; arm64: number; args: readonly Argument[] }>;

const row = (name: string, x64: number, arm64: number, ...args: Argument[]): SystemCall => ({ name, x64, arm64, args });
const zeros = (count: number) => "\0".repeat(count);

const HERE = -100; // AT_FDCWD
const SESSION = -3; // KEY_SPEC_SESSION_KEYRING

/** Refused in a sandbox, and done in a container without its limits: those are what refuses them. */
export const refusedOnlyHere: readonly SystemCall[] = [
  row("mount", 165, 40, "none", "/mnt", "tmpfs", 0, ""),
  row("fsopen", 430, 430, "tmpfs", 0),
  row("open_tree", 428, 428, HERE, "/", 1),
  row("unshare a mount namespace", 272, 97, 0x20000),
  row("unshare a network namespace", 272, 97, 0x40000000),
  row("sethostname", 170, 161, "x", 1),
  row("keyctl", 250, 219, 0, SESSION, 1),
  row("add_key", 248, 217, "user", "x", "y", 1, SESSION),
  row("request_key", 249, 218, "user", "x", "", SESSION),
  row("personality", 135, 92, 0x40000),
  row("fanotify_init", 300, 262, 0, 0),
  row("kcmp", 312, 272, 1, 1, 0, 0, 0),
  row("a raw socket", 41, 198, 2, 3, 1),
  row("a packet socket", 41, 198, 17, 3, 0),
  row("mknod", 259, 33, HERE, "/tmp/null", 0o20666, 0x103),
  row("setuid 0", 105, 146, 0),
  row("setgid 0", 106, 144, 0),
];

/** Refused in a sandbox; what a container without limits answers depends on the machine. */
export const refused: readonly SystemCall[] = [
  row("umount", 166, 39, "/run/pistis", 2),
  row("pivot_root", 155, 41, "/tmp", "/tmp"),
  row("chroot", 161, 51, "/tmp"),
  row("setns", 308, 268, 0, 0),
  row("unshare a user namespace", 272, 97, 0x10000000),
  row("move_mount", 429, 429, HERE, "/tmp", HERE, "/mnt", 0),
  row("mount_setattr", 442, 442, HERE, "/", 0, zeros(32), 32),
  row("open_by_handle_at", 304, 265, 0, zeros(32), 0),
  row("name_to_handle_at", 303, 264, HERE, "/", zeros(160), zeros(8), 0),
  row("bpf", 321, 280, 999, zeros(64), 64),
  row("perf_event_open", 298, 241, zeros(128), 0, -1, -1, 0),
  row("userfaultfd", 323, 282, 0),
  row("init_module", 175, 105, "", 0, ""),
  row("finit_module", 313, 273, -1, "", 0),
  row("delete_module", 176, 106, "none", 0),
  row("kexec_load", 246, 104, 0, 0, 0, 0xffff0000),
  row("reboot", 169, 142, 0, 0, 0, 0),
  row("swapon", 167, 224, "/nonexistent", 0),
  row("acct", 163, 89, "/nonexistent"),
  row("quotactl", 179, 60, 0x800700, "/nonexistent", 0, 0),
  row("settimeofday", 164, 170, zeros(16), 0),
  row("syslog", 103, 116, 3, zeros(16), 16),
  row("mknod of memory", 259, 33, HERE, "/tmp/mem", 0o20666, 0x101),
  row("mknod of a disk", 259, 33, HERE, "/tmp/disk", 0o60666, 0x800),
  row("setgroups", 116, 159, 1, zeros(4)),
  row("capset", 126, 91, `\x22\x05\x08\x20${zeros(4)}`, "\x7f".repeat(24)),
  row("process_vm_readv", 310, 270, 1, "", 0, "", 0, 0),
];

/** On a process of the machine, by its number there: inside there is no such process. */
export function onProcess(pid: number): readonly SystemCall[] {
  return [
    row("ptrace a process of the machine", 101, 117, 16, pid, 0, 0),
    row("signal a process of the machine", 62, 129, pid, 0),
    row("hold a process of the machine", 434, 434, pid, 0),
  ];
}

/** A perl program that makes each call and prints its name and `done` or the error's number. */
export function program(calls: readonly SystemCall[]): string {
  const lines = calls.map(({ name, x64, arm64, args }) => {
    const values = args.map((value) => (typeof value === "number" ? String(value) : quoted(value)));
    return `attempt(${[quoted(name), x64, arm64, ...values].join(", ")});`;
  });
  return `$| = 1; my $isX64 = \`uname -m\` =~ /x86_64/;
sub attempt {
  my ($name, $x64, $arm64, @args) = @_;
  my $value = syscall($isX64 ? $x64 : $arm64, @args);
  print "$name=", $value == -1 ? $! + 0 : "done", "\\n";
}
${lines.join("\n")}
`;
}

export type Outcomes = Readonly<Record<string, string>>;

/** By the call's name: `done`, or the number of the error. */
export function outcomesIn(text: string): Outcomes {
  const lines = text.split("\n").filter((line) => line !== "");
  return Object.fromEntries(lines.map((line) => line.split("=") as [string, string]));
}

function quoted(text: string): string {
  const escaped = [...text].map((letter) => {
    const code = letter.charCodeAt(0);
    return /[A-Za-z0-9 /._-]/.test(letter) ? letter : `\\x${code.toString(16).padStart(2, "0")}`;
  });
  return `"${escaped.join("")}"`;
}
