// `npm run images [name...]`: builds the images that Pistis runs in. Plain `docker build`, one Dockerfile each; their
// public bases are pulled by Docker, or made by infra/images/bases.sh where no registry is reached.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { stageNats, stagePistisd, stagePostgres, stageServer } from "./stage.ts";

type Image = Readonly<{
  name: string;
  /** Below infra/images. */
  folder: string;
  /** Makes the folder that Docker builds in; it is the Dockerfile's own when absent. */
  context?: () => Promise<string> | string;
  about: string;
}>;

const ROOT = resolve(import.meta.dirname, "../..");

/** In the order in which they need each other. */
const IMAGES: readonly Image[] = [
  { name: "pistisd", folder: "pistisd", context: () => stagePistisd(ROOT), about: "the sandbox's side, to copy from" },
  { name: "sandbox", folder: "sandbox", about: "the default sandbox: Debian with git" },
  { name: "pistis-browser", folder: "pistis-browser", about: "a sandbox with Chromium and Node" },
  { name: "server", folder: "server", context: () => stageServer(ROOT), about: "every service of the server" },
];

/** For machines that cannot pull the public ones; built only when they are named. */
const SERVERS: readonly Image[] = [
  { name: "nats", folder: "servers/nats", context: () => stageNats(ROOT), about: "stand-in for the public nats" },
  {
    name: "postgres",
    folder: "servers/postgres",
    context: () => stagePostgres(ROOT),
    about: "stand-in for the public postgres",
  },
];

async function main(names: readonly string[]): Promise<void> {
  const known = [...IMAGES, ...SERVERS];
  const unknown = names.filter((name) => !known.some((image) => image.name === name));
  if (unknown.length > 0) {
    throw new Error(`Unknown image ${unknown.join(", ")}; there are ${known.map(({ name }) => name).join(", ")}`);
  }
  if (!existsSync(join(ROOT, "dist/pistisd/pistisd"))) throw new Error("Run npm run build:pistisd first");
  const wanted = names.length === 0 ? IMAGES : known.filter(({ name }) => names.includes(name));
  for (const image of wanted) await build(image);
}

async function build({ name, folder, context, about }: Image): Promise<void> {
  const started = performance.now();
  const source = join(ROOT, "infra/images", folder);
  const tag = `pistis/${name}`;
  say(`${tag}: building (${about})`);
  // The host's network reaches what the host reaches, whatever name servers and routes that takes.
  const options = ["--network", "host", "--tag", tag, "--file", join(source, "Dockerfile")];
  const args = ["build", ...options, (await context?.()) ?? source];
  const { status, stdout, stderr } = spawnSync("docker", args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  if (status !== 0) {
    process.stderr.write(`${stdout}${stderr}`);
    throw new Error(`docker ${args.join(" ")} failed. Where no registry is reached: infra/images/bases.sh`);
  }
  const seconds = ((performance.now() - started) / 1_000).toFixed(1);
  say(`${tag}: ${(sizeOf(tag) / 1e6).toFixed(0)} MB, ${seconds} s`);
}

function sizeOf(tag: string): number {
  return Number(execFileSync("docker", ["image", "inspect", "--format", "{{.Size}}", tag], { encoding: "utf8" }));
}

function say(text: string): void {
  process.stdout.write(`images: ${text}\n`);
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`images: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
