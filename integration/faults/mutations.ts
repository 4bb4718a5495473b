// `npm run mutations`: switches each invariant off by a change of one line, in a copy of the tree, and shows that its
// named tests go red. They have to be green there before. With `--inject N` the fault injector looks as well, N faults of
// the kinds by which the change can be seen from outside.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { Command, Option } from "commander";
import { wholeNumber } from "#services/cli/option-values.ts";
import { MUTATIONS, type Mutation } from "./mutation-list.ts";
import { INVARIANTS } from "./violation.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const NODE = process.execPath;

/** What a mutation breaks often waits for ever; none of the named tests takes a tenth of this. */
const TEST_MS_MAX = 30_000;

const options = new Command("npm run mutations --")
  .description("Switches each invariant off by one line, in a copy of the tree, and shows that its tests go red of it.")
  .addOption(new Option("--only <invariant>", "of this one").choices(INVARIANTS))
  .option("--inject <n>", "also let the fault injector look, with n faults for each", wholeNumber(1, 100_000))
  .showHelpAfterError("  next: see npm run mutations -- --help")
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<{ only?: string; inject?: number }>();
const copy = copyOfTree();
try {
  for (const mutation of MUTATIONS) {
    if (options.only !== undefined && mutation.invariant !== options.only) continue;
    if (!isCaught(copy, mutation)) process.exitCode = 1;
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}

function copyOfTree(): string {
  const folder = mkdtempSync(join(tmpdir(), "pistis-mutations-"));
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"], { cwd: ROOT });
  for (const file of listed.toString().split("\0")) {
    if (file !== "") cpSync(join(ROOT, file), join(folder, file), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

function isCaught(tree: string, mutation: Mutation): boolean {
  const { invariant, file, from, to } = mutation;
  const path = join(tree, file);
  const text = readFileSync(path, "utf8");
  if (text.split(from).length !== 2) {
    say(`${invariant}  ${file} does not have this line once: ${from}`);
    return false;
  }
  const before = redTests(tree, mutation);
  writeFileSync(
    path,
    text.replace(from, () => to),
  );
  const after = redTests(tree, mutation);
  const violated = options.inject === undefined ? [] : injected(tree, options.inject, mutation);
  writeFileSync(path, text);
  const caught = before.length === 0 && after.length > 0;
  say(`${invariant}  ${caught ? "caught" : "NOT CAUGHT"}  ${file}\n      - ${from}\n      + ${to}`);
  for (const name of before) say(`      red before the change: ${name}`);
  for (const name of after) say(`      red: ${name}`);
  for (const line of violated) say(`      injector: ${line}`);
  return caught;
}

/** Titles of the named tests that fail in this tree. Those of the daemon run what was built of it. */
function redTests(tree: string, { tests, named }: Mutation): string[] {
  if (tests.startsWith("services/pistisd/")) execFileSync(NODE, [join(tree, "infra", "build-pistisd.ts")]);
  const mocha = join(tree, "node_modules", "mocha", "bin", "mocha.js");
  const args = [
    mocha,
    tests,
    "--reporter",
    "json",
    "--timeout",
    String(TEST_MS_MAX),
    ...(named === "" ? [] : ["--grep", `\\b${named}\\b`]),
  ];
  const { stdout } = spawnSync(NODE, args, { cwd: tree, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  const start = stdout.indexOf("{\n");
  const report: unknown = JSON.parse(stdout.slice(start));
  return failuresIn(report);
}

function failuresIn(report: unknown): string[] {
  if (typeof report !== "object" || report === null || !("failures" in report) || !Array.isArray(report.failures)) {
    throw new Error("mocha printed no report");
  }
  return report.failures.map((failure: { fullTitle: string }) => failure.fullTitle);
}

/** What the injector finds in this tree, in few words. */
function injected(tree: string, faults: number, { kinds, unseen }: Mutation): string[] {
  if (unseen !== undefined) return [`does not see it: ${unseen}`];
  const script = join(tree, "integration", "faults", "soak.ts");
  const env = { ...process.env, PATH: `${dirname(NODE)}:${process.env["PATH"]}` };
  const drawn = kinds === undefined ? [] : ["--kinds", kinds.join(",")];
  const { stdout } = spawnSync(NODE, [script, "--faults", String(faults), "--seed", "1", "--no-steps", ...drawn], {
    cwd: tree,
    env,
    encoding: "utf8",
  });
  const lines = stdout.split("\n").filter((line) => line.startsWith("VIOLATION"));
  const counts = Map.groupBy(lines, (line) => line.split(" ")[1] ?? "");
  return [...counts].map(([of, list]) => `${of} violated ${list.length} times, first: ${list[0]}`);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
