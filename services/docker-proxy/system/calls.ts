// What belongs to no container: is the engine there, what can it do, does it have an image, what happens on it.
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { ask, assertOk, read, stream } from "../engine/engine.ts";
import { answer, answerJson } from "../http/answers.ts";
import { readNothing } from "../http/body.ts";
import { type Call, type Desk, type Exchange, NO_QUERY, ownFilters } from "../http/call.ts";
import { checked } from "../http/checked.ts";
import { Refused } from "../http/refused.ts";

export const systemCalls: readonly Call[] = [
  { method: "GET", path: /^\/_ping$/, handle: ping },
  { method: "GET", path: /^\/info$/, handle: info },
  { method: "GET", path: /^\/images\/([A-Za-z0-9][\w.:@-]*(?:\/[A-Za-z0-9][\w.:@-]*)*)\/json$/, handle: image },
  { method: "GET", path: /^\/events$/, handle: events },
];

async function ping({ engine }: Desk, { request, response, query }: Exchange): Promise<void> {
  await readNothing(request);
  checked(NO_QUERY, query);
  const { status, body } = await ask(engine, { method: "GET", path: "/_ping" });
  answer(response, { status, body }, "text/plain");
}

/** The rest of it tells of the host's other containers, its registries and, in the proxies' addresses, of its passwords. */
const engineInfo = z.object({
  ServerVersion: z.string().optional(),
  OperatingSystem: z.string().optional(),
  OSType: z.string().optional(),
  Architecture: z.string().optional(),
  KernelVersion: z.string().optional(),
  NCPU: z.number().optional(),
  MemTotal: z.number().optional(),
  Driver: z.string().optional(),
  DriverStatus: z.array(z.array(z.string())).nullish(),
  CgroupDriver: z.string().optional(),
  CgroupVersion: z.string().optional(),
  MemoryLimit: z.boolean().optional(),
  SwapLimit: z.boolean().optional(),
  PidsLimit: z.boolean().optional(),
  CpuCfsQuota: z.boolean().optional(),
  SecurityOptions: z.array(z.string()).nullish(),
  DefaultAddressPools: z.array(z.object({ Base: z.string(), Size: z.number() })).nullish(),
  DockerRootDir: z.string().optional(),
});

async function info({ engine }: Desk, { request, response, query }: Exchange): Promise<void> {
  await readNothing(request);
  checked(NO_QUERY, query);
  const got = await ask(engine, { method: "GET", path: "/info" });
  assertOk(got);
  answerJson(response, read(engineInfo, got));
}

async function image({ engine }: Desk, { request, response, name, query }: Exchange): Promise<void> {
  await readNothing(request);
  checked(NO_QUERY, query);
  answer(response, await ask(engine, { method: "GET", path: `/images/${name}/json` }));
}

const eventsQuery = z.strictObject({ filters: z.string().optional() });

async function events(desk: Desk, { request, response, query }: Exchange): Promise<void> {
  await readNothing(request);
  const { engine, key } = desk;
  const { filters } = checked(eventsQuery, query);
  const own = ownFilters(key, filters, ["label", "event", "type"]);
  const left = new AbortController();
  response.once("close", () => left.abort());
  const over = AbortSignal.any([left.signal, desk.stopping]);
  const call = { method: "GET", path: "/events", query: { filters: own } } as const;
  const source = await stream(engine, call, over);
  if (source.statusCode !== 200) {
    source.destroy();
    throw new Refused(source.statusCode ?? 502, "engine", "The engine refused to tell its events");
  }
  response.writeHead(200, { "content-type": "application/json", connection: "close" });
  response.flushHeaders();
  copy(source, response, desk);
}

/** Ends with either side. A caller that does not read is cut off, so that it begins anew instead of missing events. */
function copy(source: IncomingMessage, response: ServerResponse, { limits, log }: Desk): void {
  source.on("data", (chunk: Buffer) => {
    if (response.write(chunk)) return;
    source.pause();
    const stuck = setTimeout(() => response.destroy(), limits.stuckMs);
    response.once("drain", () => {
      clearTimeout(stuck);
      source.resume();
    });
    response.once("close", () => clearTimeout(stuck));
  });
  source.once("error", (error) => log.debug({ reason: error.message }, "The engine's events broke off"));
  // The stream ends with the engine; its caller sees the same.
  source.once("close", () => (source.readableEnded ? response.end() : response.destroy()));
}
