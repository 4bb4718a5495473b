// Takes the nats-server package out of a newer suite of the machine's own distribution and mirror. apt checks the
// signatures; it works in a directory of its own, so nothing is installed and no root is needed.
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { failureOf, Retryable } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { type AptSource, parseAptSources } from "./apt-sources.ts";
import { runCommand } from "./run-command.ts";

const NEWER_SUITES: { [distribution: string]: readonly string[] } = {
  debian: ["trixie", "forky", "sid"],
  ubuntu: ["noble", "resolute"],
};
const COMPONENTS: { [distribution: string]: string } = { debian: "main", ubuntu: "universe" };

/** Puts `nats-server` into `folder`. Throws a Retryable `nats_download_failed` that says why it could not. */
export async function downloadNatsServer(options: { folder: string; root: string; log: Log }): Promise<void> {
  const { folder, root, log } = options;
  const distribution = await readDistribution(root);
  const source = (await machineSources(root)).find((one) => one.suite === distribution.codename);
  if (source === undefined)
    throw cannot(`no package source for "${distribution.id} ${distribution.codename}" was found`);
  await mkdir(folder, { recursive: true });
  const failures: string[] = [];
  for (const suite of NEWER_SUITES[distribution.id] ?? []) {
    log.info({ suite, mirror: source.uri }, "Downloading the nats-server package (signed, nothing is installed)");
    const failure = await fromSuite(folder, { ...source, suite, components: [COMPONENTS[distribution.id] ?? "main"] })
      .then(() => undefined)
      .catch(failureOf);
    if (failure === undefined) return;
    failures.push(`${suite}: ${failure.message.split("\n")[0]}`);
  }
  throw cannot(failures.join("; ") || `no newer suite of ${distribution.id} is known`);
}

async function fromSuite(folder: string, source: AptSource): Promise<void> {
  const work = await mkdtemp(join(folder, "download-"));
  try {
    await Promise.all(
      ["lists/partial", "archives/partial"].map((name) => mkdir(join(work, name), { recursive: true })),
    );
    const options = await aptOptions(work, source);
    await runCommand("apt-get", [...options, "update"], work);
    await runCommand("apt-get", [...options, "download", "nats-server"], work);
    const packages = (await readdir(work)).filter((name) => name.endsWith(".deb"));
    await runCommand("dpkg-deb", ["-x", ...packages, "unpacked"], work);
    await copyFile(join(work, "unpacked/usr/sbin/nats-server"), join(work, "nats-server"));
    await rename(join(work, "nats-server"), join(folder, "nats-server"));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function aptOptions(work: string, source: AptSource): Promise<string[]> {
  const signedBy = source.signedBy === undefined ? "" : `[signed-by=${source.signedBy}] `;
  await writeFile(
    join(work, "sources.list"),
    `deb ${signedBy}${source.uri} ${source.suite} ${source.components.join(" ")}\n`,
  );
  return [
    "-qq",
    `-oDir::Etc::sourcelist=${join(work, "sources.list")}`,
    "-oDir::Etc::sourceparts=-",
    `-oDir::State=${work}`,
    `-oDir::State::lists=${join(work, "lists")}`,
    `-oDir::Cache=${work}`,
    `-oDir::Cache::archives=${join(work, "archives")}`,
    "-oAcquire::Languages=none",
    "-oAcquire::Retries=2",
    "-oAPT::Sandbox::User=",
  ];
}

async function machineSources(root: string): Promise<AptSource[]> {
  const folder = join(root, "etc/apt/sources.list.d");
  const names = await readdir(folder).catch(() => []);
  const files = [join(root, "etc/apt/sources.list"), ...names.map((name) => join(folder, name))];
  const parsed = await Promise.all(
    files.map(async (file) => parseAptSources(basename(file), await readFile(file, "utf8").catch(() => ""))),
  );
  return parsed.flat();
}

async function readDistribution(root: string): Promise<{ id: string; codename: string }> {
  const text = await readFile(join(root, "etc/os-release"), "utf8").catch(() => "");
  const value = (key: string) => new RegExp(`^${key}="?([^"\\n]*)"?$`, "m").exec(text)?.[1] ?? "";
  return { id: value("ID"), codename: value("VERSION_CODENAME") };
}

function cannot(why: string): Retryable {
  return new Retryable("nats_download_failed", `nats-server could not be downloaded: ${why}`, {
    retryAfterMs: 60_000,
    next: "Install nats-server 2.10 or later, or set NATS_URL to a running one.",
  });
}
