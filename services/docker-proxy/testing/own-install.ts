// What an install of a test has on the engine, made through its docker-proxy.
import { expect } from "chai";
import { z } from "zod";
import { networkTestBody, sandboxTestBody, testVolume, volumeTestBody } from "./bodies.ts";
import type { ProxyUnderTest } from "./proxy-under-test.ts";

export type Own = Readonly<{ containerId: string; networkId: string; volume: string }>;

export async function makeOwn({ ask, key, folder }: ProxyUnderTest): Promise<Own> {
  const idOf = (answer: { text: string; status: number }) => idIn(answer).Id;
  expect(await ask({ method: "POST", path: "/volumes/create", json: volumeTestBody({ key }) })).to.include({
    status: 201,
  });
  const network = networkTestBody({ key, subnet: "198.51.100.0/29" });
  const networkId = idOf(await ask({ method: "POST", path: "/v1.41/networks/create", json: network }));
  const { HostConfig, ...body } = sandboxTestBody({ key, folder });
  const json = { ...body, HostConfig: { ...HostConfig, NetworkMode: network.Name } };
  const path = `/v1.41/containers/create?name=pistis-${key}-sbx_1-g1`;
  return { containerId: idOf(await ask({ method: "POST", path, json })), networkId, volume: testVolume(key) };
}

export function idIn({ text, status }: { text: string; status: number }): { Id: string } {
  expect(status, text).to.equal(201);
  return z.object({ Id: z.string() }).parse(JSON.parse(text));
}
