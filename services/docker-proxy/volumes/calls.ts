import { z } from "zod";
import { LABELS, namePrefix } from "#shared/docker/names.ts";
import { ask } from "../engine/engine.ts";
import { answer } from "../http/answers.ts";
import { readJson, readNothing } from "../http/body.ts";
import { type Call, type Desk, type Exchange, NO_QUERY, ownFilters } from "../http/call.ts";
import { checked } from "../http/checked.ts";
import { forbidden } from "../http/refused.ts";
import { ownVolume } from "../own.ts";

export const volumeCalls: readonly Call[] = [
  { method: "GET", path: /^\/volumes$/, handle: list },
  { method: "POST", path: /^\/volumes\/create$/, handle: create },
  { method: "DELETE", path: /^\/volumes\/([A-Za-z0-9][A-Za-z0-9_.-]{0,250})$/, handle: remove },
];

const listQuery = z.strictObject({ filters: z.string().optional() });

async function list({ engine, key }: Desk, { request, response, query }: Exchange): Promise<void> {
  await readNothing(request);
  const filters = ownFilters(key, checked(listQuery, query).filters, ["label"]);
  answer(response, await ask(engine, { method: "GET", path: "/volumes", query: { filters } }));
}

const roleOf = z.looseObject({ Labels: z.looseObject({ [LABELS.role]: z.string() }) });

async function create({ engine, bodies, limits }: Desk, { request, response, query }: Exchange): Promise<void> {
  checked(NO_QUERY, query);
  const given = await readJson(request, limits.bodyBytesMax);
  const isStart = roleOf.safeParse(given).data?.Labels[LABELS.role] === "start";
  const json = checked(isStart ? bodies.startVolume : bodies.pistisdVolume, given);
  answer(response, await ask(engine, { method: "POST", path: "/volumes/create", json }));
}

async function remove(desk: Desk, { request, response, name, query }: Exchange): Promise<void> {
  await readNothing(request);
  checked(NO_QUERY, query);
  // The name is all that a volume has, so it has to be one that no other install may give.
  if (!name.startsWith(namePrefix(desk.key))) {
    throw forbidden("foreign_volume", `${name} is no volume of this install`);
  }
  await ownVolume(desk, name);
  answer(response, await ask(desk.engine, { method: "DELETE", path: `/volumes/${name}` }));
}
