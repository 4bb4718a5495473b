// A private network for each sandbox that may reach the internet: a bridge of its own with a /29 from our own pool. Which
// are taken is read from the engine each time: another install, or a person, may have made some.
import { z } from "zod";
import { Retryable } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { type Range, rangeOf } from "#shared/network/subnets.ts";
import type { SandboxRef } from "../../provider.ts";
import type { Docker } from "../docker.ts";
import { ask, EngineRefused, tell, unless } from "../engine/engine.ts";
import { labelled, refIn, refLabels, sandboxName } from "../names.ts";
import { freeSubnets } from "./subnets.ts";

const PREFIX = 29;
/** Others may take a subnet between our look and our request. */
const TRIES_MAX = 32;

const listed = z.array(
  z.object({
    Id: z.string(),
    Name: z.string(),
    Created: z.string().default(""),
    Labels: z.record(z.string(), z.string()).nullish(),
    IPAM: z.object({ Config: z.array(z.object({ Subnet: z.string().optional() })).nullish() }).nullish(),
  }),
);

export type SandboxNetwork = Readonly<{ id: string; ref: SandboxRef; createdAt: number }>;

/** Those of the install, or of one sandbox. */
export async function sandboxNetworks({ engine, key }: Docker, sandboxId?: string): Promise<SandboxNetwork[]> {
  const query = labelled(key, "network", sandboxId);
  const found = await ask(engine, { method: "GET", path: "/networks", query }, listed);
  return found.flatMap(({ Id: id, Created, Labels }) => {
    const ref = refIn(Labels ?? {});
    return ref === undefined ? [] : [{ id, ref, createdAt: Date.parse(Created) || 0 }];
  });
}

/** Its name: that of a network which is there already, or of a new one. Throws Retryable `networks_exhausted`, Refusal `docker_proxy_refused`. */
export async function ensureNetwork(docker: Docker, ref: SandboxRef): Promise<string> {
  const name = sandboxName(docker.key, ref);
  const found = await sandboxNetworks(docker, ref.sandboxId);
  if (found.some((network) => network.ref.generation === ref.generation)) return name;
  const { subnets } = docker.docker;
  if (subnets === "engine") await createFromEngine(docker, ref);
  else await createFromPool(docker, ref, subnets);
  return name;
}

/** One that is gone is a success. */
export async function removeNetwork({ engine }: Docker, id: string): Promise<void> {
  await unless([404], tell(engine, { method: "DELETE", path: `/networks/${id}` }), undefined);
}

async function createFromPool(docker: Docker, ref: SandboxRef, pool: string): Promise<void> {
  const used = await rangesInUse(docker);
  // Begins elsewhere for each sandbox, so that two that are made at once seldom want the same.
  const start = Number.parseInt(sha256(`${docker.installId} ${ref.sandboxId} ${ref.generation}`).slice(0, 8), 16);
  let tries = 0;
  for (const subnet of freeSubnets(pool, { prefix: PREFIX, start, used })) {
    if (++tries > TRIES_MAX) break;
    const addresses = { IPAM: { Driver: "default", Config: [{ Subnet: subnet }] } };
    // 403: it overlaps with what appeared meanwhile (docker-proxy's own 403 is a Refusal). 409: the network is there, by an attempt that was cut off.
    const outcome = await unless(
      [409],
      unless([403], create(docker, ref, addresses), "taken" as const),
      "there" as const,
    );
    if (outcome !== "taken") return;
  }
  throw new Retryable("networks_exhausted", `No subnet of ${pool} is free for a sandbox's network`, {
    retryAfterMs: 60_000,
    next: "End sessions that are over, or set sandboxes.docker.subnets in pistis.json to a larger range that nothing else uses.",
  });
}

async function createFromEngine(docker: Docker, ref: SandboxRef): Promise<void> {
  await unless([409], create(docker, ref, {}), undefined).catch((cause: unknown) => {
    // The engine has no code for it; these are what it answers when its pools have nothing left.
    if (!(cause instanceof EngineRefused) || ![400, 404].includes(cause.status)) throw cause;
    throw new Retryable(
      "networks_exhausted",
      "Docker's own address pools hold no further network (about 30 by default)",
      {
        cause,
        retryAfterMs: 60_000,
        next: 'Set "default-address-pools" in /etc/docker/daemon.json on the Docker host and restart Docker, or set sandboxes.docker.subnets to a range of its own.',
      },
    );
  });
}

async function create({ engine, key }: Docker, ref: SandboxRef, addresses: object): Promise<"made"> {
  const body = {
    Name: sandboxName(key, ref),
    CheckDuplicate: true,
    Driver: "bridge",
    Internal: false,
    Attachable: false,
    EnableIPv6: false,
    Labels: refLabels(key, "network", ref),
    ...addresses,
    Options: { "com.docker.network.bridge.enable_icc": "false" },
  };
  await tell(engine, { method: "POST", path: "/networks/create", body });
  return "made";
}

async function rangesInUse({ engine }: Docker): Promise<Range[]> {
  const found = await ask(engine, { method: "GET", path: "/networks" }, listed);
  const subnets = found.flatMap(({ IPAM }) => (IPAM?.Config ?? []).map(({ Subnet }) => Subnet ?? ""));
  return subnets.flatMap((subnet) => rangeOf(subnet) ?? []);
}
