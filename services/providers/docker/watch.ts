// Notices sandboxes that end by themselves: at once by the engine's events, and by a look now and then, because a stream
// of events can be silent or break off.
import type { IncomingMessage } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { endReason, inspectContainer, isUp, sandboxContainers, stateOf } from "./containers.ts";
import type { Docker } from "./docker.ts";
import { stream } from "./engine/engine.ts";

const LOOK_EVERY_MS = 15_000;
const REOPEN_MS = 500;
const EVENT_CHARACTERS_MAX = 1024 * 1024;

const event = z.object({ Actor: z.object({ ID: z.string() }) });

/** Until the signal. What fails is logged and tried again. */
export async function watchEnds(docker: Docker, signal: AbortSignal): Promise<void> {
  await Promise.all([
    again(docker, signal, { everyMs: REOPEN_MS, work: () => followEvents(docker, signal) }),
    again(docker, signal, { everyMs: LOOK_EVERY_MS, work: () => lookForEnds(docker) }),
  ]);
}

/** Repeats the work until the signal, with a pause between. */
export async function again(
  { log }: Docker,
  signal: AbortSignal,
  { everyMs, work }: { everyMs: number; work: () => Promise<void> },
): Promise<void> {
  while (!signal.aborted) {
    await work().catch((error: unknown) => {
      if (!signal.aborted) log.debug({ failure: failureOf(error) }, "Docker was not to be watched");
    });
    await pause(everyMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

/** Ends with the stream. It stands before the look, so that nothing falls between the two. */
async function followEvents(docker: Docker, signal: AbortSignal): Promise<void> {
  const { engine, key } = docker;
  const filters = { type: ["container"], event: ["die", "destroy"], label: [`${LABELS.install}=${key}`] };
  const query = { filters: JSON.stringify(filters) };
  const events = await stream(engine, { method: "GET", path: "/events", query }, signal);
  try {
    await lookForEnds(docker);
    for await (const line of linesOf(events)) await checkEnd(docker, event.parse(JSON.parse(line)).Actor.ID);
  } finally {
    events.destroy();
  }
}

/** Throws what the stream fails with: node's own reader of lines would wait for ever. */
async function* linesOf(events: IncomingMessage): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of events.setEncoding("utf8")) {
    const parts = `${rest}${chunk}`.split("\n");
    rest = parts.pop() ?? "";
    if (rest.length > EVENT_CHARACTERS_MAX) throw new RangeError("An event of Docker's is without end");
    yield* parts.filter((line) => line !== "");
  }
}

async function lookForEnds(docker: Docker): Promise<void> {
  const { engine, key, running } = docker;
  // What starts after this look is not in the list, and has not ended.
  const before = [...running.keys()];
  const up = new Set((await sandboxContainers(engine, key)).filter(({ state }) => isUp(state)).map(({ id }) => id));
  for (const id of before) if (!up.has(id)) await checkEnd(docker, id);
}

/** Only an end that nobody asked for is told: before an asked one the container is no longer among the running. */
async function checkEnd(docker: Docker, id: string): Promise<void> {
  const { engine, running, inTurn } = docker;
  const ref = running.get(id);
  if (ref === undefined) return;
  await inTurn(ref.sandboxId, async () => {
    if (!running.has(id)) return;
    const found = await inspectContainer(engine, id);
    const state = found === undefined ? "missing" : stateOf(found.State.Status);
    if (isUp(state)) return;
    running.delete(id);
    tellEnd(docker, { ...ref, state, reason: found === undefined ? "Its container was removed" : endReason(found) });
  });
}

export function tellEnd({ watchers, log }: Docker, ended: Parameters<Parameters<Docker["watchers"]["add"]>[0]>[0]) {
  const { sandboxId, session, generation, state, reason } = ended;
  log.warn({ sandboxId, reason }, "A sandbox ended by itself");
  for (const watcher of watchers) watcher({ sandboxId, session, generation, state, reason });
}
