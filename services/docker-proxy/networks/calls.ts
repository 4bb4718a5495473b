import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import { ask, assertOk, read } from "../engine/engine.ts";
import { answer, answerJson } from "../http/answers.ts";
import { readJson, readNothing } from "../http/body.ts";
import { type Call, type Desk, type Exchange, NO_QUERY, ownFilters } from "../http/call.ts";
import { checked } from "../http/checked.ts";
import { ownNetwork } from "../own.ts";

export const networkCalls: readonly Call[] = [
  { method: "GET", path: /^\/networks$/, handle: list },
  { method: "POST", path: /^\/networks\/create$/, handle: create },
  { method: "DELETE", path: /^\/networks\/([0-9a-f]{64})$/, handle: remove },
];

const listQuery = z.strictObject({ filters: z.string().optional() });

async function list({ engine, key }: Desk, { request, response, query }: Exchange): Promise<void> {
  await readNothing(request);
  const { filters } = checked(listQuery, query);
  if (filters === undefined) return listSubnets({ engine, key }, response);
  const own = ownFilters(key, filters, ["label"]);
  answer(response, await ask(engine, { method: "GET", path: "/networks", query: { filters: own } }));
}

const networks = z.array(
  z.looseObject({
    Labels: z.record(z.string(), z.string()).nullish(),
    IPAM: z.object({ Config: z.array(z.object({ Subnet: z.string().optional() })).nullish() }).nullish(),
  }),
);

/** Whoever picks a free subnet has to know those in use. Of others' networks that is all there is to see. */
async function listSubnets(
  { engine, key }: Pick<Desk, "engine" | "key">,
  response: Exchange["response"],
): Promise<void> {
  const got = await ask(engine, { method: "GET", path: "/networks" });
  assertOk(got);
  const shown = read(networks, got).map((network) => {
    if (network.Labels?.[LABELS.install] === key) return network;
    const subnets = (network.IPAM?.Config ?? []).map(({ Subnet }) => ({ Subnet }));
    return { Name: "", Id: "", Labels: {}, IPAM: { Config: subnets } };
  });
  answerJson(response, shown);
}

async function create({ engine, bodies, limits }: Desk, { request, response, query }: Exchange): Promise<void> {
  checked(NO_QUERY, query);
  const json = checked(bodies.network, await readJson(request, limits.bodyBytesMax));
  answer(response, await ask(engine, { method: "POST", path: "/networks/create", json }));
}

async function remove(desk: Desk, { request, response, name, query }: Exchange): Promise<void> {
  await readNothing(request);
  checked(NO_QUERY, query);
  const id = await ownNetwork(desk, name);
  answer(response, await ask(desk.engine, { method: "DELETE", path: `/networks/${id}` }));
}
