// What is done once for an image before a sandbox is made of it: pistisd's files are put into their volume, and the
// image's users are read, so that the sandbox's own one can be put beside them. Both go through a container that is
// never started.
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { PISTISD_TARGET } from "#shared/docker/names.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { fillerBody } from "../container-body.ts";
import { inspectContainer, removeContainer } from "../containers.ts";
import type { Docker } from "../docker.ts";
import { ask, stream, tell, unless } from "../engine/engine.ts";
import { firstFileOf } from "../engine/tar.ts";
import { newFillerName, pistisdVolumeName, roleLabels } from "../names.ts";
import { COMPLETE, type PistisdFiles, PROGRAM } from "./pistisd-files.ts";

/** What /etc/passwd and /etc/group of an image may measure, with the tar file's own blocks. */
const USERS_BYTES_MAX = 64 * 1024;

export type PreparedImage = Readonly<{ imageId: string; volume: string; passwd: string; group: string }>;

const made = z.object({ Id: z.string() });

/** Throws Refusal `image_missing`; Pistis pulls nothing. */
export async function prepareImage(docker: Docker, image: string): Promise<PreparedImage> {
  const imageId = await idOf(docker, image);
  const known = docker.prepared.get(imageId);
  if (known !== undefined) return known;
  const preparing = prepare(docker, imageId);
  docker.prepared.set(imageId, preparing);
  preparing.catch(() => docker.prepared.delete(imageId));
  return preparing;
}

async function idOf({ engine }: Docker, image: string): Promise<string> {
  const found = ask(engine, { method: "GET", path: `/images/${image}/json` }, made);
  const { Id } = (await unless([400, 404], found, undefined)) ?? {};
  if (Id !== undefined) return Id;
  throw new Refusal("image_missing", `The Docker host has no image ${image}, and Pistis pulls none`, {
    next: `On the Docker host: \`docker pull ${image}\`; for Pistis' own images \`npm run images\`; or set sandboxes.image.`,
  });
}

async function prepare(docker: Docker, imageId: string): Promise<PreparedImage> {
  const { engine, key } = docker;
  const pistisd = await docker.pistisd();
  const volume = pistisdVolumeName(key, pistisd.digest);
  await tell(engine, {
    method: "POST",
    path: "/volumes/create",
    body: { Name: volume, Labels: roleLabels(key, "pistisd") },
  });
  const query = { name: newFillerName(key) };
  const body = fillerBody(key, { imageId, volume });
  const { Id: filler } = await ask(engine, { method: "POST", path: "/containers/create", query, body }, made);
  try {
    if (!(await isFilled(docker, filler, pistisd))) await fill(docker, filler, pistisd);
    const passwd = await readSmall(docker, filler, "/etc/passwd");
    const group = await readSmall(docker, filler, "/etc/group");
    return { imageId, volume, passwd, group };
  } finally {
    await removeContainer(engine, filler);
  }
}

/** A volume that was half filled when somebody died has no mark at its end, and is filled again. */
async function isFilled(docker: Docker, filler: string, { programBytes }: PistisdFiles): Promise<boolean> {
  if ((await bytesOf(docker, filler, COMPLETE)) === undefined) return false;
  return programBytes === 0 || (await bytesOf(docker, filler, PROGRAM)) === programBytes;
}

const stat = z.object({ size: z.number() });

async function bytesOf({ engine }: Docker, filler: string, name: string): Promise<number | undefined> {
  const query = { path: `${PISTISD_TARGET}/${name}` };
  const asked = stream(engine, { method: "HEAD", path: `/containers/${filler}/archive`, query });
  const answer = await unless([404], asked, undefined);
  if (answer === undefined) return undefined;
  answer.resume();
  const header = String(answer.headers["x-docker-container-path-stat"] ?? "");
  return stat.parse(JSON.parse(Buffer.from(header, "base64").toString("utf8"))).size;
}

async function fill(docker: Docker, filler: string, pistisd: PistisdFiles): Promise<void> {
  const { engine, log } = docker;
  const startedAt = performance.now();
  const query = { path: PISTISD_TARGET };
  await tell(engine, { method: "PUT", path: `/containers/${filler}/archive`, query, archive: pistisd.tar() });
  if (!(await isFilled(docker, filler, pistisd))) {
    throw new Retryable("pistisd_volume_unfilled", "The volume for pistisd did not take its files", {
      retryAfterMs: 5_000,
      next: "See that the Docker host has free disk space.",
    });
  }
  log.info({ ms: Math.round(performance.now() - startedAt) }, "pistisd was put into its volume");
}

/** Empty when the image has no such file. The engine says the same of a container that is gone. */
async function readSmall({ engine }: Docker, filler: string, path: string): Promise<string> {
  const asked = stream(engine, { method: "GET", path: `/containers/${filler}/archive`, query: { path } });
  const answer = await unless([404], asked, undefined);
  if (answer === undefined) {
    if ((await inspectContainer(engine, filler)) === undefined) throw fillerGone();
    return "";
  }
  return firstFileOf(await bounded(answer))?.toString("utf8") ?? "";
}

function fillerGone(): Retryable {
  return new Retryable(
    "image_not_prepared",
    "The container that the image's users are read from was removed meanwhile",
    {
      retryAfterMs: 1_000,
      next: "Send the message again. Let nothing else on the Docker host remove containers of Pistis.",
    },
  );
}

async function bounded(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += chunk.byteLength;
    if (bytes > USERS_BYTES_MAX) {
      answer.destroy();
      throw new Refusal("image_users_too_many", "The image's /etc/passwd or /etc/group is too large", {
        next: `Use an image whose files are below ${USERS_BYTES_MAX / 1024} KiB.`,
      });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
