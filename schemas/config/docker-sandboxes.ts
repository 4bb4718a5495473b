// `sandboxes.docker` of pistis.json.
import { z } from "zod";

export const dockerSandboxes = z.strictObject({
  host: z
    .string()
    .regex(/^(unix:\/\/\/.+|https?:\/\/.+)$/, { error: "is neither unix:///path nor http://host:port" })
    .default("unix:///var/run/docker.sock")
    .describe("Docker's address: unix:///path or http://host:port. Where docker-proxy runs, it is the proxy's"),
  relayVolume: z
    .string()
    .regex(/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,199}$/)
    .optional()
    .describe(
      "Volume that holds the relay's socket, where the relay is a container; else the socket's folder is mounted",
    ),
  subnets: z
    .union([z.literal("engine"), z.cidrv4()])
    .default("10.208.0.0/12")
    .describe(
      'Where the private networks of sandboxes with internet come from, a /29 each. "engine": Docker\'s own pools, about 30 networks',
    ),
  dns: z
    .array(z.ipv4())
    .max(3)
    .default([])
    .describe("Name servers of sandboxes with internet; Docker's own choice when empty"),
  shmMiB: z.number().int().min(1).default(256).describe("Size of /dev/shm, which browsers need"),
});

export type DockerSandboxes = z.output<typeof dockerSandboxes>;
