// Where the engine cannot give a container's layer a size, disk use is measured now and then, and a sandbox over its limit
// is ended. It keeps its disk.
import { setTimeout as pause } from "node:timers/promises";
import { failureOf } from "#shared/errors/errors.ts";
import { type SandboxContainer, sandboxContainers, stopContainer, unwatched } from "./containers.ts";
import type { Docker } from "./docker.ts";
import { diskLimitIn } from "./names.ts";
import { tellEnd } from "./watch.ts";

const MEASURE_EVERY_MS = 15_000;
/** Measuring takes at most one in so many parts of the time. */
const MEASURE_SHARE = 20;
/** A sandbox that was ended for its disk may then write so much, to tidy up. */
const SLACK_MIB = 64;
const MIB = 1024 * 1024;

export async function watchDisks(docker: Docker, signal: AbortSignal): Promise<void> {
  if (docker.facts.reservesDisk) return;
  const overMiB = new Map<string, number>();
  let waitMs = MEASURE_EVERY_MS;
  while (!signal.aborted) {
    await pause(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted || docker.running.size === 0) continue;
    const startedAt = performance.now();
    await endFullSandboxes(docker, overMiB).catch((error: unknown) => {
      docker.log.debug({ failure: failureOf(error) }, "Disk use was not to be measured");
    });
    waitMs = Math.max(MEASURE_EVERY_MS, (performance.now() - startedAt) * MEASURE_SHARE);
  }
}

/** `overMiB`: with what a sandbox was ended before, by its container. One that cannot be ended does not keep the others. */
export async function endFullSandboxes(docker: Docker, overMiB: Map<string, number>): Promise<void> {
  const { engine, key, running } = docker;
  for (const container of await sandboxContainers(engine, key, { sizes: true })) {
    const { id } = container;
    const limitMiB = diskLimitIn(container.labels);
    const usedMiB = (container.diskBytes ?? 0) / MIB;
    if (limitMiB === undefined || !running.has(id)) continue;
    const allowedMiB = Math.max(limitMiB, (overMiB.get(id) ?? 0) + (overMiB.has(id) ? SLACK_MIB : 0));
    if (usedMiB <= allowedMiB) continue;
    const reason = `Its disk holds ${Math.round(usedMiB)} MiB, and may hold ${limitMiB} MiB`;
    try {
      await end(docker, container, reason);
      overMiB.set(id, usedMiB);
    } catch (error) {
      const fields = { sandboxId: container.ref.sandboxId, reason, failure: failureOf(error) };
      docker.log.error(fields, "A sandbox over its disk limit could not be ended; trying again");
    }
  }
}

async function end(docker: Docker, { id, ref }: SandboxContainer, reason: string): Promise<void> {
  await docker.inTurn(ref.sandboxId, async () => {
    if (!docker.running.has(id)) return;
    await unwatched(docker, id, () => stopContainer(docker.engine, id, 0));
    tellEnd(docker, { ...ref, state: "stopped", reason });
  });
}
