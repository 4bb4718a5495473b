// Builds the daemon's four files (and its own C library) into dist/pistisd. `npm run build:pistisd`.
// Does nothing when the inputs are those of the last build. With --faults: dist/pistisd-faults, which is for the fault
// injector alone.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";

type Target = Readonly<{ bun: string; loader: string; libraries: readonly string[] }>;

const ROOT = resolve(import.meta.dirname, "..");
const FAULTS = process.argv.includes("--faults");
const NAME = FAULTS ? "pistisd-faults" : "pistisd";
const OUTPUT = join(ROOT, "dist", NAME);
const ENTRY = FAULTS ? "testing/faulty-main.ts" : "main.ts";
const SOURCE = join(ROOT, "services/pistisd");
const SCRIPTS = ["pistisd-entry", "pistisd-musl"];
const SHARED_LIBRARIES = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"];

const TARGETS: Record<string, Target> = {
  x64: { bun: "x64", loader: "ld-linux-x86-64.so.2", libraries: SHARED_LIBRARIES },
  arm64: { bun: "aarch64", loader: "ld-linux-aarch64.so.1", libraries: SHARED_LIBRARIES },
};

function main(): void {
  const target = TARGETS[process.arch];
  if (process.platform !== "linux" || target === undefined) {
    throw new Error(`pistisd is built on Linux for x64 and arm64, this is ${process.platform} ${process.arch}`);
  }
  const bun = join(ROOT, `node_modules/@oven/bun-linux-${target.bun}/bin/bun`);
  if (!existsSync(bun)) throw new Error(`The compiler is missing: ${bun}. Run npm ci, without --omit=optional`);
  const inputs = hashInputs(target);
  const stamp = join(OUTPUT, ".inputs");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === inputs) {
    say(`dist/${NAME} is up to date`);
    return;
  }
  const work = mkdtempSync(join(ensure(join(ROOT, "dist")), "pistisd-"));
  compile(bun, target, work);
  addScripts(work);
  addLibraries(target, work);
  writeFileSync(join(work, "NOTICES"), notices());
  writeFileSync(join(work, ".inputs"), inputs);
  chmodSync(work, 0o755);
  replace(work);
  report();
}

function compile(bun: string, target: Target, work: string): void {
  const flags = ["--compile", "--minify", "--bytecode", "--format=cjs"];
  // Without these the program runs code that a file in its working directory names.
  const closed = ["--no-compile-autoload-dotenv", "--no-compile-autoload-bunfig"];
  const outfile = join(work, "pistisd");
  const args = [
    "build",
    ...flags,
    ...closed,
    `--target=bun-linux-${target.bun}`,
    join(SOURCE, ENTRY),
    "--outfile",
    outfile,
  ];
  execFileSync(bun, args, { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
  chmodSync(outfile, 0o755);
}

function addScripts(work: string): void {
  for (const script of SCRIPTS) {
    copyFileSync(join(SOURCE, script), join(work, script));
    chmodSync(join(work, script), 0o755);
  }
  symlinkSync("pistisd", join(work, "pi-env"));
}

/** The machine's own C library, for images that have none: old enough programs run on any newer kernel. */
function addLibraries({ loader, libraries }: Target, work: string): void {
  const lib = ensure(join(work, "lib"));
  const loaderPath = ["/lib64", "/lib", `/lib/${multiarch()}`].map((folder) => join(folder, loader)).find(existsSync);
  if (loaderPath === undefined) throw new Error(`There is no ${loader} here: build on a glibc system such as Debian`);
  copyFileSync(realpathSync(loaderPath), join(lib, "ld.so"));
  chmodSync(join(lib, "ld.so"), 0o755);
  symlinkSync("ld.so", join(lib, loader));
  for (const library of libraries) copyFileSync(findLibrary(library, loaderPath), join(lib, library));
}

function findLibrary(name: string, loaderPath: string): string {
  const folders = [
    `/lib/${multiarch()}`,
    `/usr/lib/${multiarch()}`,
    "/lib64",
    "/usr/lib64",
    dirname(realpathSync(loaderPath)),
  ];
  const path = folders.map((folder) => join(folder, name)).find(existsSync);
  if (path === undefined) throw new Error(`There is no ${name} in ${folders.join(", ")}`);
  return realpathSync(path);
}

function multiarch(): string {
  return process.arch === "x64" ? "x86_64-linux-gnu" : "aarch64-linux-gnu";
}

function replace(work: string): void {
  const old = `${work}.old`;
  if (existsSync(OUTPUT)) renameSync(OUTPUT, old);
  renameSync(work, OUTPUT);
  rmSync(old, { recursive: true, force: true });
}

/** All that the result depends on: sources, contracts, packages, compiler and this file. */
function hashInputs(target: Target): string {
  const hash = createHash("sha256");
  const folders = [
    "services/pistisd",
    "schemas/wire",
    "shared/errors",
    "shared/faults",
    "shared/service",
    "shared/sockets",
    "shared/system-calls",
  ];
  const files = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  );
  for (const file of [...files, "infra/build-pistisd.ts", "package-lock.json"].sort()) {
    if (!statSync(join(ROOT, file)).isFile() || /\.test\.ts$|\.md$|^services\/pistisd\/testing\//.test(file)) continue;
    hash.update(`${file}\0`).update(readFileSync(join(ROOT, file)));
  }
  return hash
    .update(readFileSync(join(SOURCE, ENTRY)))
    .update(JSON.stringify(target))
    .digest("hex");
}

function notices(): string {
  return `pistisd is a part of Pistis (Apache-2.0). This folder also holds software of others:

pistisd       contains the Bun runtime (MIT, https://github.com/oven-sh/bun), which links JavaScriptCore from
              WebKit (LGPL-2.1 and BSD) and TinyCC (LGPL-2.1), and zod (MIT). The sources that Bun was built
              from and how to link it anew are at the address above.
lib/          the GNU C Library (LGPL-2.1-or-later), unchanged, as separate files that can be replaced. Its
              source is https://sourceware.org/glibc/ and the source package "glibc" of Debian.
`;
}

function report(): void {
  const names = readdirSync(OUTPUT, { recursive: true, encoding: "utf8" }).filter((name) => name !== ".inputs");
  say(`Built dist/${NAME}:`);
  for (const name of names.sort()) {
    const { size } = statSync(join(OUTPUT, name));
    if (statSync(join(OUTPUT, name)).isFile()) say(`  ${name.padEnd(28)} ${(size / 1024 / 1024).toFixed(1)} MB`);
  }
}

function ensure(folder: string): string {
  mkdirSync(folder, { recursive: true });
  return folder;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

main();
