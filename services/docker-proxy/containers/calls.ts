import type { ServerResponse } from "node:http";
import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import { ask, type EngineCall } from "../engine/engine.ts";
import { answer } from "../http/answers.ts";
import { readJson, readNothing } from "../http/body.ts";
import { type Call, type Desk, type Exchange, flag, NO_QUERY, ownFilters } from "../http/call.ts";
import { checked } from "../http/checked.ts";
import { plainTar } from "../http/plain-tar.ts";
import { forbidden, malformed } from "../http/refused.ts";
import { type OwnContainer, ownContainer, ownNetwork, ownVolume, type Role } from "../own.ts";

const NAME = "([A-Za-z0-9][A-Za-z0-9_.-]{0,200})";

export const containerCalls: readonly Call[] = [
  { method: "GET", path: /^\/containers\/json$/, handle: list },
  { method: "POST", path: /^\/containers\/create$/, handle: create },
  { method: "GET", path: at("json"), handle: inspect },
  { method: "POST", path: at("start"), handle: act({ verb: "start" }) },
  { method: "POST", path: at("pause"), handle: act({ verb: "pause" }) },
  { method: "POST", path: at("unpause"), handle: act({ verb: "unpause" }) },
  { method: "POST", path: at("stop"), handle: act({ verb: "stop", query: z.strictObject({ t: seconds() }) }) },
  { method: "DELETE", path: new RegExp(`^/containers/${NAME}$`), handle: remove },
  { method: "PUT", path: at("archive"), handle: putArchive },
  { method: "HEAD", path: at("archive"), handle: statFile },
  { method: "GET", path: at("archive"), handle: getFile },
];

function at(verb: string): RegExp {
  return new RegExp(`^/containers/${NAME}/${verb}$`);
}

function seconds() {
  return z
    .string()
    .regex(/^\d{1,3}$/)
    .optional();
}

const listQuery = z.strictObject({ all: flag.optional(), size: flag.optional(), filters: z.string().optional() });

async function list({ engine, key }: Desk, { response, query }: Exchange): Promise<void> {
  const { all, size, filters } = checked(listQuery, query);
  const own = ownFilters(key, filters, ["label"]);
  await pass(response, ask(engine, { method: "GET", path: "/containers/json", query: { all, size, filters: own } }));
}

const roleOf = z.looseObject({ Labels: z.looseObject({ [LABELS.role]: z.string() }) });

async function create(desk: Desk, { request, response, query }: Exchange): Promise<void> {
  const given = await readJson(request, desk.limits.bodyBytesMax);
  const role = roleOf.safeParse(given).data?.Labels[LABELS.role];
  const made = role === "filler" ? await checkedFiller(desk, query, given) : await checkedSandbox(desk, query, given);
  await pass(response, ask(desk.engine, { method: "POST", path: "/containers/create", ...made }));
}

type Made = Pick<EngineCall, "json" | "query">;

async function checkedSandbox(desk: Desk, query: Exchange["query"], given: unknown): Promise<Made> {
  const { name } = checked(desk.bodies.sandboxQuery, query);
  const body = checked(desk.bodies.sandbox, given);
  const { NetworkMode, Mounts } = body.HostConfig;
  await assertPistisdVolume(desk, Mounts[0].Source);
  if (NetworkMode === "none") return { query: { name }, json: body };
  // A network's name may come to mean another network before the container is made; its id cannot.
  const networkId = await ownNetwork(desk, NetworkMode);
  return { query: { name }, json: { ...body, HostConfig: { ...body.HostConfig, NetworkMode: networkId } } };
}

async function checkedFiller(desk: Desk, query: Exchange["query"], given: unknown): Promise<Made> {
  const { name } = checked(desk.bodies.fillerQuery, query);
  const body = checked(desk.bodies.filler, given);
  await assertPistisdVolume(desk, body.HostConfig.Mounts[0].Source);
  return { query: { name }, json: body };
}

/** The engine itself would make a volume that is missing, and take one that stands for a folder of the host. */
async function assertPistisdVolume(desk: Desk, name: string): Promise<void> {
  if ((await ownVolume(desk, name)) !== "pistisd") throw forbidden("volume_role", `${name} does not hold pistisd`);
}

async function inspect(desk: Desk, { request, response, name, query }: Exchange): Promise<void> {
  await readNothing(request);
  checked(NO_QUERY, query);
  answer(response, (await ownContainer(desk, name)).answer);
}

function act({ verb, query = NO_QUERY }: { verb: string; query?: z.ZodType<EngineCall["query"]> }): Call["handle"] {
  return async (desk, exchange) => {
    await readNothing(exchange.request);
    const asked = checked(query, exchange.query);
    const { id, role } = await ownContainer(desk, exchange.name);
    assertRole(role, "sandbox", `${verb} is for sandboxes`);
    const path = `/containers/${id}/${verb}`;
    await pass(exchange.response, ask(desk.engine, { method: "POST", path, ...(asked ? { query: asked } : {}) }));
  };
}

const removeQuery = z.strictObject({ force: flag.optional(), v: flag.optional() });

async function remove(desk: Desk, { request, response, name, query }: Exchange): Promise<void> {
  await readNothing(request);
  const asked = checked(removeQuery, query);
  const { id } = await ownContainer(desk, name);
  await pass(response, ask(desk.engine, { method: "DELETE", path: `/containers/${id}`, query: asked }));
}

const FILLED = "/opt/pistis";
const sandboxPath = z.strictObject({ path: z.literal("/") });
const fillerPath = z.strictObject({ path: z.literal(FILLED) });

/** Into a sandbox that does not run: its directories and the join token; into a filler: pistisd. */
async function putArchive(desk: Desk, { request, response, name, query }: Exchange): Promise<void> {
  const container = await ownContainer(desk, name);
  const forFiller = container.role === "filler";
  const { path } = checked(forFiller ? fillerPath : sandboxPath, query);
  assertAtRest(container);
  const { archiveBytesMax, smallArchiveBytesMax } = desk.limits;
  const check = plainTar(forFiller ? archiveBytesMax : smallArchiveBytesMax);
  const archive = { content: request, check };
  const to = `/containers/${container.id}/archive`;
  await pass(response, ask(desk.engine, { method: "PUT", path: to, query: { path }, archive }));
}

function assertAtRest({ status }: OwnContainer): void {
  if (status === "created" || status === "exited") return;
  throw forbidden("container_runs", "Files go into a container that does not run");
}

const statPath = z.strictObject({ path: z.string().regex(/^\/opt\/pistis\/[a-z0-9._-]{1,60}$/) });
const readPath = z.strictObject({ path: z.enum(["/etc/passwd", "/etc/group"]) });

async function statFile(desk: Desk, exchange: Exchange): Promise<void> {
  await readFiller(desk, exchange, { method: "HEAD", query: checked(statPath, exchange.query) });
}

async function getFile(desk: Desk, exchange: Exchange): Promise<void> {
  await readFiller(desk, exchange, { method: "GET", query: checked(readPath, exchange.query) });
}

const STAT_HEADER = "x-docker-container-path-stat";

async function readFiller(
  desk: Desk,
  { request, response, name }: Exchange,
  call: { method: "HEAD" | "GET"; query: { path: string } },
): Promise<void> {
  await readNothing(request);
  const { id, role } = await ownContainer(desk, name);
  assertRole(role, "filler", "Files are read from fillers only");
  const got = await ask(desk.engine, { ...call, path: `/containers/${id}/archive` });
  const stat = got.headers[STAT_HEADER];
  if (typeof stat === "string" && /^[\w+/=-]{1,4000}$/.test(stat)) response.setHeader(STAT_HEADER, stat);
  answer(response, got, got.status === 200 && call.method === "GET" ? "application/x-tar" : "application/json");
}

function assertRole(role: Role, needed: Role, message: string): void {
  if (role !== needed) throw malformed("container_role", message);
}

async function pass(response: ServerResponse, asked: ReturnType<typeof ask>): Promise<void> {
  answer(response, await asked);
}
