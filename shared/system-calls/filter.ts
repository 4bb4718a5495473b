// A system-call filter for what runs in a sandbox: what only an administrator or an exploit calls is refused, and so is every
// kind of socket but Unix, IP and netlink. A virtual machine's vsock, for one, belongs to no network namespace.

/** By architecture, as the kernel numbers them. */
type Architecture = Readonly<{ audit: number; socket: number; denied: readonly number[]; x32?: number }>;

const NEW_MOUNT_CALLS = [428, 429, 430, 431, 432, 433, 442];
const IO_URING = [425, 426, 427];

const ARCHITECTURES: { readonly [name: string]: Architecture } = {
  x64: {
    audit: 0xc000003e,
    socket: 41,
    x32: 0x40000000,
    denied: [
      ...[248, 249, 250], // add_key, request_key, keyctl
      ...[321, 298, 323], // bpf, perf_event_open, userfaultfd
      ...[246, 320, 175, 313, 176], // kexec_load, kexec_file_load, init_module, finit_module, delete_module
      ...[165, 166, 155, 308, ...NEW_MOUNT_CALLS], // mount, umount2, pivot_root, setns
      ...[167, 168, 169, 163, 179, 103], // swapon, swapoff, reboot, acct, quotactl, syslog
      ...[304, 212], // open_by_handle_at, lookup_dcookie
    ],
  },
  arm64: {
    audit: 0xc00000b7,
    socket: 198,
    denied: [
      ...[217, 218, 219], // add_key, request_key, keyctl
      ...[280, 241, 282], // bpf, perf_event_open, userfaultfd
      ...[104, 294, 105, 273, 106], // kexec_load, kexec_file_load, init_module, finit_module, delete_module
      ...[40, 39, 41, 268, ...NEW_MOUNT_CALLS], // mount, umount2, pivot_root, setns
      ...[224, 225, 142, 89, 60, 116], // swapon, swapoff, reboot, acct, quotactl, syslog
      ...[265, 18], // open_by_handle_at, lookup_dcookie
    ],
  },
};

/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. */
const FAMILIES = [1, 2, 10, 16];

const Errno = { notPermitted: 1, noSuchCall: 38, noSuchFamily: 97 } as const;
const ALLOW = 0x7fff0000;
const FAIL_WITH = 0x00050000;

/** Where the numbers of struct seccomp_data stand. */
const Offset = { call: 0, architecture: 4, firstArgument: 16 } as const;
const Op = { load: 0x20, jumpIfEqual: 0x15, jumpIfAtLeast: 0x35, answer: 0x06 } as const;

type Instruction = Readonly<{ code: number; ifTrue: number; ifFalse: number; value: number }>;

/** The filter as the kernel takes it; undefined for a processor whose numbers are not known here. */
export function seccompFilter(architecture: string): Uint8Array | undefined {
  const known = ARCHITECTURES[architecture];
  return known === undefined ? undefined : encoded(program(known));
}

function program({ audit, socket, denied, x32 }: Architecture): Instruction[] {
  return [
    load(Offset.architecture),
    skipIfEqual(audit, 1),
    answer(FAIL_WITH | Errno.noSuchCall),
    load(Offset.call),
    ...(x32 === undefined ? [] : [skipUnlessAtLeast(x32, 1), answer(FAIL_WITH | Errno.noSuchCall)]),
    ...IO_URING.flatMap((call) => [skipUnlessEqual(call, 1), answer(FAIL_WITH | Errno.noSuchCall)]),
    ...denied.flatMap((call) => [skipUnlessEqual(call, 1), answer(FAIL_WITH | Errno.notPermitted)]),
    skipUnlessEqual(socket, FAMILIES.length + 2),
    load(Offset.firstArgument),
    ...FAMILIES.map((family, index) => skipIfEqual(family, FAMILIES.length - index)),
    answer(FAIL_WITH | Errno.noSuchFamily),
    answer(ALLOW),
  ];
}

function load(offset: number): Instruction {
  return { code: Op.load, ifTrue: 0, ifFalse: 0, value: offset };
}

function answer(value: number): Instruction {
  return { code: Op.answer, ifTrue: 0, ifFalse: 0, value };
}

function skipIfEqual(value: number, count: number): Instruction {
  return { code: Op.jumpIfEqual, ifTrue: count, ifFalse: 0, value };
}

function skipUnlessEqual(value: number, count: number): Instruction {
  return { code: Op.jumpIfEqual, ifTrue: 0, ifFalse: count, value };
}

function skipUnlessAtLeast(value: number, count: number): Instruction {
  return { code: Op.jumpIfAtLeast, ifTrue: 0, ifFalse: count, value };
}

function encoded(instructions: readonly Instruction[]): Uint8Array {
  const bytes = Buffer.alloc(instructions.length * 8);
  for (const [index, { code, ifTrue, ifFalse, value }] of instructions.entries()) {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(ifTrue, index * 8 + 2);
    bytes.writeUInt8(ifFalse, index * 8 + 3);
    bytes.writeUInt32LE(value, index * 8 + 4);
  }
  return bytes;
}
