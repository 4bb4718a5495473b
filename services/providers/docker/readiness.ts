// Whether a Docker engine is there with the image for sandboxes, found out quickly and without loading the client.
import { type IncomingMessage, type RequestOptions, request } from "node:http";
import { request as secureRequest } from "node:https";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { API_VERSION } from "#shared/docker/names.ts";
import { DEFAULT_IMAGE } from "./default-image.ts";

const ANSWER_MS_MAX = 3_000;

/** `answers`: an engine is there; `ready`: and has the image. `why`: for people. */
export type Readiness = Readonly<{ answers: boolean; ready: boolean; why: string }>;

export async function dockerReadiness({ image, docker }: PistisConfig["sandboxes"]): Promise<Readiness> {
  const wanted = image ?? DEFAULT_IMAGE;
  try {
    if ((await statusOf(docker.host, "/_ping")) !== 200)
      return { answers: false, ready: false, why: `${docker.host} is no Docker` };
    if ((await statusOf(docker.host, `/images/${wanted}/json`)) === 200)
      return { answers: true, ready: true, why: `image ${wanted}` };
    return { answers: true, ready: false, why: `Docker has no image ${wanted} (npm run images, or docker pull)` };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    return { answers: false, ready: false, why: `Docker does not answer at ${docker.host}${code}` };
  }
}

function statusOf(host: string, path: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const options: RequestOptions = { path: `/v${API_VERSION}${path}`, timeout: ANSWER_MS_MAX, agent: false };
  const take = (answer: IncomingMessage) => {
    answer.resume();
    answer.once("end", () => resolve(answer.statusCode));
    answer.once("error", reject);
  };
  const asked = host.startsWith("unix://")
    ? request({ ...options, socketPath: host.slice("unix://".length) }, take)
    : (host.startsWith("https:") ? secureRequest : request)(new URL(host), options, take);
  asked.once("timeout", () => asked.destroy(new Error("It did not answer in time")));
  asked.once("error", reject);
  asked.end();
  return promise;
}
