// What a container of this install may be. The body is rebuilt from these shapes: a key that is not in them is refused,
// whatever its value, and so is a value that would give a sandbox more than commands need.
import { z } from "zod";
import { PISTISD_TARGET, RELAY_TARGET } from "#shared/docker/names.ts";
import { newLabels, newName, PISTISD_NAME, SANDBOX_NAME } from "../labels.ts";

/** `relay`: where the relay's socket is, a folder of the engine's machine or a volume. */
export type ContainerRules = Readonly<{
  key: string;
  relay: Readonly<{ folder: string | undefined; volume: string | undefined }>;
}>;

const MIB = 1_024 * 1_024;
const MEMORY_BYTES_MAX = 1_024 * 1_024 * MIB;
const ENVIRONMENT_MAX = 200;

const imageName = z.string().regex(/^[A-Za-z0-9][\w.:/@-]{0,499}$/, "is no name of an image");
const variable = z
  .string()
  .max(4_096)
  .regex(/^[A-Za-z_]\w*=[^\0\r\n]*$/, "is not NAME=value on one line");
/** Root of the container is root of the host's numbering where the engine maps no users. */
const ordinaryUser = z.string().regex(/^[1-9]\d{0,9}:[1-9]\d{0,9}$/, "is not uid:gid, both above 0");
const count = (max: number) => z.number().int().positive().max(max);

const noCapabilities = z.tuple([z.literal("ALL")], { error: 'has to be ["ALL"]' });
const noNewPrivileges = z.tuple([z.literal("no-new-privileges")], { error: 'has to be ["no-new-privileges"]' });

const noCoreDump = z.strictObject({ Name: z.literal("core"), Soft: z.literal(0), Hard: z.literal(0) });

/** A log that stays on the machine: other drivers send what a sandbox writes to an address of the caller's choice. */
const localLog = z.strictObject({
  Type: z.literal("json-file"),
  Config: z.strictObject({ "max-size": z.string().regex(/^\d{1,3}[km]$/), "max-file": z.string().regex(/^[1-9]$/) }),
});

function pistisdMount(key: string, readOnly: boolean) {
  return z.strictObject({
    Type: z.literal("volume"),
    Source: newName(key, PISTISD_NAME),
    Target: z.literal(PISTISD_TARGET),
    ReadOnly: z.literal(readOnly),
    VolumeOptions: z.strictObject({ NoCopy: z.literal(true) }),
  });
}

function relayMount({ folder, volume }: ContainerRules["relay"]) {
  const target = { Target: z.literal(RELAY_TARGET), ReadOnly: z.literal(true) };
  const bind = z.strictObject({
    Type: z.literal("bind"),
    Source: folder === undefined ? z.never("may not be a folder: none is configured") : z.literal(folder),
    ...target,
    BindOptions: z.strictObject({ Propagation: z.literal("rprivate") }),
  });
  const named = z.strictObject({
    Type: z.literal("volume"),
    Source: volume === undefined ? z.never("may not be a volume: none is configured") : z.literal(volume),
    ...target,
    VolumeOptions: z.strictObject({ NoCopy: z.literal(true) }),
  });
  return z.discriminatedUnion("Type", [bind, named]);
}

/** Where commands run. */
export function sandboxBody(rules: ContainerRules) {
  const { key, relay } = rules;
  return z.strictObject({
    Image: imageName,
    Entrypoint: z.tuple([z.literal(`${PISTISD_TARGET}/pistisd-entry`)]),
    Cmd: z.tuple([]),
    User: ordinaryUser,
    WorkingDir: z.literal("/"),
    Hostname: z.string().regex(/^[a-z0-9-]{1,63}$/),
    Env: z.array(variable).max(ENVIRONMENT_MAX),
    Labels: newLabels(key, "sandbox"),
    AttachStdin: z.literal(false),
    AttachStdout: z.literal(false),
    AttachStderr: z.literal(false),
    Tty: z.literal(false),
    OpenStdin: z.literal(false),
    HostConfig: sandboxHost(key, relay),
  });
}

function sandboxHost(key: string, relay: ContainerRules["relay"]) {
  return z
    .strictObject({
      NetworkMode: z.union([z.literal("none"), newName(key, SANDBOX_NAME)]),
      Mounts: z.tuple([pistisdMount(key, true), relayMount(relay)]),
      Memory: count(MEMORY_BYTES_MAX),
      MemorySwap: count(MEMORY_BYTES_MAX),
      NanoCpus: count(1_000 * 1_000_000_000),
      PidsLimit: count(4_194_304),
      ShmSize: count(MEMORY_BYTES_MAX),
      CapDrop: noCapabilities,
      SecurityOpt: noNewPrivileges,
      Ulimits: z.tuple([noCoreDump]),
      IpcMode: z.literal("private"),
      CgroupnsMode: z.literal("private"),
      Init: z.literal(false),
      RestartPolicy: z.strictObject({ Name: z.literal("no") }),
      LogConfig: localLog,
      StorageOpt: z.strictObject({ size: z.string().regex(/^[1-9]\d{0,8}[MG]$/) }).optional(),
      Dns: z.array(z.ipv4()).max(3).optional(),
    })
    .refine(({ Memory, MemorySwap }) => Memory === MemorySwap, { path: ["MemorySwap"], error: "has to be Memory" });
}

/** Fills the volume of pistisd's files and reads the image's users; it is never started. */
export function fillerBody({ key }: ContainerRules) {
  return z.strictObject({
    Image: imageName,
    Entrypoint: z.tuple([z.literal("/bin/false")]),
    Cmd: z.tuple([]),
    Labels: newLabels(key, "filler"),
    HostConfig: z.strictObject({
      NetworkMode: z.literal("none"),
      CapDrop: noCapabilities,
      SecurityOpt: noNewPrivileges,
      Mounts: z.tuple([pistisdMount(key, false)]),
    }),
  });
}
