// Sandboxes as containers of a Docker engine. The engine's own list is the only record: this process may die at any
// moment, and the next one goes on from what it finds.
import { installKey } from "#shared/docker/names.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { oneAtATime } from "../one-at-a-time.ts";
import type { SandboxProvider, SandboxRef, StartSandbox } from "../provider.ts";
import { isUp, sandboxContainers, stopContainer } from "./containers.ts";
import { DEFAULT_IMAGE } from "./default-image.ts";
import { watchDisks } from "./disk-watch.ts";
import type { Docker, DockerSetting } from "./docker.ts";
import { openEngine } from "./engine/engine.ts";
import { engineFacts } from "./engine/facts.ts";
import { type PistisdFiles, readPistisdFiles } from "./image/pistisd-files.ts";
import { prepareImage } from "./image/prepare-image.ts";
import { describeIsolation } from "./isolation.ts";
import {
  createSandbox,
  destroySandbox,
  inspectSandbox,
  listSandboxes,
  pauseSandbox,
  restartSandbox,
  resumeSandbox,
  stopSandbox,
} from "./sandbox.ts";
import { sweep } from "./sweep.ts";
import { watchEnds } from "./watch.ts";

const CLOSE_STOP_SECONDS = 5;

/**
 * Opens the provider and removes what earlier processes left half made or half removed.
 * Throws Retryable `docker_unreachable`, Refusal `docker_forbidden` and `pistisd_missing`, each with the next step.
 */
export async function openDockerProvider(setting: DockerSetting): Promise<SandboxProvider> {
  const docker = await prepareDocker(setting);
  await docker.pistisd();
  await sweep(docker);
  await noteRunning(docker);
  const closing = new AbortController();
  const watching = Promise.all([watchEnds(docker, closing.signal), watchDisks(docker, closing.signal)]);
  const warming = warm(docker);
  const { inTurn } = docker;
  return {
    name: "docker",
    capabilities: new Set(["pause", "stop"] as const),
    create: (request: StartSandbox) => inTurn(request.sandboxId, () => createSandbox(docker, request)),
    restart: (request: StartSandbox) => inTurn(request.sandboxId, () => restartSandbox(docker, request)),
    pause: (ref: SandboxRef) => inTurn(ref.sandboxId, () => pauseSandbox(docker, ref)),
    resume: (ref: SandboxRef) => inTurn(ref.sandboxId, () => resumeSandbox(docker, ref)),
    stop: (ref: SandboxRef) => inTurn(ref.sandboxId, () => stopSandbox(docker, ref)),
    inspect: (ref: SandboxRef) => inTurn(ref.sandboxId, () => inspectSandbox(docker, ref)),
    destroy: (ref: SandboxRef) => inTurn(ref.sandboxId, () => destroySandbox(docker, ref)),
    list: () => listSandboxes(docker),
    watch: (onEnd) => {
      docker.watchers.add(onEnd);
      return () => docker.watchers.delete(onEnd);
    },
    isolation: () => describeIsolation(docker),
    close: async () => {
      docker.watchers.clear();
      closing.abort();
      await Promise.all([watching, warming]);
      if (setting.stopAtClose) await stopAll(docker);
    },
  };
}

/** Asks the engine what it can do. Nothing is changed. */
export async function prepareDocker(setting: DockerSetting): Promise<Docker> {
  const engine = openEngine(setting.docker.host);
  let reading: Promise<PistisdFiles> | undefined;
  const pistisd = () => {
    reading ??= readPistisdFiles(setting.pistisdFolder);
    return reading;
  };
  return {
    ...setting,
    engine,
    facts: await engineFacts(engine),
    key: installKey(setting.installId),
    pistisd,
    prepared: new Map(),
    running: new Map(),
    watchers: new Set(),
    inTurn: oneAtATime(),
  };
}

async function noteRunning({ engine, key, running }: Docker): Promise<void> {
  for (const { id, ref, state } of await sandboxContainers(engine, key)) if (isUp(state)) running.set(id, ref);
}

/** So that the first sandbox need not wait for it. What fails here fails again there, with an answer. */
async function warm(docker: Docker): Promise<void> {
  await prepareImage(docker, docker.image ?? DEFAULT_IMAGE).catch((error: unknown) => {
    docker.log.warn({ failure: failureOf(error) }, "The image for sandboxes is not ready");
  });
}

async function stopAll({ engine, running, log }: Docker): Promise<void> {
  const stopped = [...running.keys()].map((id) => stopContainer(engine, id, CLOSE_STOP_SECONDS));
  for (const result of await Promise.allSettled(stopped)) {
    if (result.status === "rejected") log.warn({ failure: failureOf(result.reason) }, "A sandbox goes on running");
  }
}
