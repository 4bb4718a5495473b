// The shape of the repository, as tests. Each rule has one sentence of reason;
// a rule nobody can justify should be deleted here, not worked around.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect } from "chai";

const root = resolve(import.meta.dirname, "..");
const folders = ["services", "shared", "schemas", "infra", "integration"];
const sources = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.includes("node_modules"))
    .map((file) => join(folder, file)),
);
const isTest = (file: string) =>
  /\.(test|contract)\.ts$/.test(file) || file.includes("/testing/") || file.startsWith("integration/");

const textOf = (file: string) => readFileSync(join(root, file), "utf8");

const importsOf = (file: string) => specifiersIn(file, /(?:from|import\()\s*"([^"]+)"/g);
/** What is loaded with the file: neither types alone nor what it imports when it needs it. */
const loadedWith = (file: string) => specifiersIn(file, /^(?:import|export) (?!type\b)(?:[^;"]*?from )?"([^"]+)";$/gm);

function specifiersIn(file: string, pattern: RegExp): string[] {
  return [...textOf(file).matchAll(pattern)].map(([, specifier]) => {
    const path = specifier ?? "";
    if (path.startsWith("#")) return path.slice(1);
    return path.startsWith(".") ? relative(root, resolve(root, dirname(file), path)) : path;
  });
}

const serviceOf = (path: string) => /^services\/([^/]+)\//.exec(path)?.[1];
const offenders = (breaks: (file: string, imported: string) => boolean, among = sources) =>
  among.flatMap((file) =>
    importsOf(file)
      .filter((imported) => breaks(file, imported))
      .map((imported) => `${file} -> ${imported}`),
  );

describe("architecture", () => {
  it("lets services meet only through events and schemas; the composition roots alone know them all", () => {
    const crossing = offenders(
      (file, imported) =>
        serviceOf(file) !== undefined &&
        serviceOf(imported) !== undefined &&
        serviceOf(file) !== serviceOf(imported) &&
        !/^services\/cli\/(dev|service)\//.test(file),
    );
    expect(crossing).to.deep.equal([]);
  });

  it("keeps shared code free of services, and schemas of everything but zod", () => {
    expect(
      offenders((file, imported) => file.startsWith("shared/") && !isTest(file) && imported.startsWith("services/")),
    ).to.deep.equal([]);
    const schemaImports = offenders(
      (file, imported) =>
        file.startsWith("schemas/") && !isTest(file) && !imported.startsWith("schemas/") && imported !== "zod",
    );
    expect(schemaImports).to.deep.equal([]);
  });

  it("keeps the bus behind one door: the nats client is imported in shared/nats only", () => {
    const outside = offenders(
      (file, imported) => imported === "nats" && !file.startsWith("shared/nats/") && !isTest(file),
    );
    expect(outside).to.deep.equal([]);
  });

  it("keeps I/O, clocks and chance out of deciders", () => {
    const deciders = sources.filter((file) => /\/decide[^/]*\.ts$/.test(file) && !isTest(file));
    expect(deciders.length).to.be.greaterThan(2);
    const io = offenders(
      (_file, imported) => imported.startsWith("node:") || ["nats", "pg", "express", "ws"].includes(imported),
      deciders,
    );
    expect(io).to.deep.equal([]);
    for (const file of deciders) {
      expect(textOf(file), file).to.not.match(/\b(async|await|Date\.now|new Date\(\)|Math\.random|randomUUID|newId)\b/);
    }
  });

  // A person waits for it at every command, and each service's own libraries cost a fifth of a second or more.
  it("starts the command line without what only a service or another command needs", () => {
    const loaded = new Set(["services/cli/main.ts"]);
    for (const file of loaded) {
      if (!file.endsWith(".ts")) continue;
      for (const imported of loadedWith(file)) loaded.add(imported);
    }
    expect(loaded.size).to.be.greaterThan(80);
    const heavy = /^(nats|pg|pino|express|ws|dockerode|@mikro-orm\/.*|@ai-sdk\/.*)$/;
    expect([...loaded].filter((name) => heavy.test(name))).to.deep.equal([]);
  });

  it("reads the environment at the edge only", () => {
    const readers = sources.filter(
      (file) =>
        /process\.env\b/.test(textOf(file)) &&
        !isTest(file) &&
        !/(^|\/)main\.ts$/.test(file) &&
        !file.startsWith("services/cli/") &&
        !file.startsWith("infra/"),
    );
    expect(readers).to.deep.equal([]);
  });

  it("has no drawer of odds and ends", () => {
    const drawers = /(^|\/)(utils?|helpers?|common|misc|index|types|manager)\.ts$/;
    expect(sources.filter((file) => drawers.test(file))).to.deep.equal([]);
  });

  it("keeps every file small enough to read at once", () => {
    const LINES_MAX = 300;
    const long = sources.filter(
      (file) => !file.endsWith(".test.ts") && textOf(file).split("\n").length > LINES_MAX + 1,
    );
    expect(long).to.deep.equal([]);
  });

  it("explains every service in a README", () => {
    const services = readdirSync(join(root, "services"), { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    );
    const silent = services
      .map(({ name }) => name)
      .filter((name) => !existsSync(join(root, "services", name, "README.md")));
    expect(silent).to.deep.equal([]);
  });

  it("has no test that is skipped or left alone, and no type that is switched off", () => {
    const marks = /\b(it|describe)\.(skip|only)\(|\bas any\b|: any\b|@ts-(ignore|nocheck)|biome-ignore-all/;
    const marked = sources.filter((file) => file !== "integration/architecture.test.ts" && marks.test(textOf(file)));
    expect(marked).to.deep.equal([]);
  });

  it("holds only what belongs at the top", () => {
    const allowed = new Set([
      "package.json",
      "package-lock.json",
      "tsconfig.json",
      "biome.json",
      "docker-compose.yml",
      "README.md",
      "LICENSE",
      "services",
      "shared",
      "schemas",
      "infra",
      "integration",
      "node_modules",
      "dist",
    ]);
    const extra = readdirSync(root).filter((name) => !name.startsWith(".") && !allowed.has(name));
    expect(extra).to.deep.equal([]);
  });
});
