// What an engine can do, as it says itself.
import { z } from "zod";
import { ask, type Engine } from "./engine.ts";

const info = z.object({
  ServerVersion: z.string().default("?"),
  Driver: z.string().default(""),
  DriverStatus: z.array(z.array(z.string())).nullish(),
  SecurityOptions: z.array(z.string()).nullish(),
  CgroupVersion: z.string().default("?"),
  PidsLimit: z.boolean().default(false),
  MemoryLimit: z.boolean().default(false),
  SwapLimit: z.boolean().default(false),
  CpuCfsQuota: z.boolean().default(false),
});

export type EngineFacts = Readonly<{
  version: string;
  /** Of its storage. */
  driver: string;
  /** Root in a container is an ordinary user of the host. */
  mapsUsers: boolean;
  seccomp: boolean;
  limits: Readonly<{ memory: boolean; swap: boolean; processes: boolean; cpu: boolean }>;
  /** It can give each container's own layer a size: known of these drivers alone. */
  reservesDisk: boolean;
  cgroupVersion: string;
}>;

const DRIVERS_WITH_SIZE = ["btrfs", "zfs", "devicemapper"];

export async function engineFacts(engine: Engine): Promise<EngineFacts> {
  const found = await ask(engine, { method: "GET", path: "/info" }, info);
  const options = found.SecurityOptions ?? [];
  const has = (name: string) => options.some((option) => option.split(",").includes(`name=${name}`) || option === name);
  return {
    version: found.ServerVersion,
    driver: found.Driver,
    mapsUsers: has("userns") || has("rootless"),
    seccomp: has("seccomp") && !options.some((option) => option.includes("profile=unconfined")),
    limits: {
      memory: found.MemoryLimit,
      swap: found.SwapLimit,
      processes: found.PidsLimit,
      cpu: found.CpuCfsQuota,
    },
    reservesDisk: DRIVERS_WITH_SIZE.includes(found.Driver),
    cgroupVersion: found.CgroupVersion,
  };
}
