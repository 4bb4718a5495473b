// `npm run mutations`: switches each invariant off by a change of one line, in a copy of the tree, and shows that its
// named tests go red. They have to be green there before. With `--inject N` the fault injector looks as well, N faults.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Invariant } from "./invariants.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const NODE = process.execPath;

type Mutation = Readonly<{
  invariant: Invariant;
  file: string;
  from: string;
  to: string;
  tests: string;
  named: string;
}>;

const BRAIN = "services/brain";
const SCHEDULER = "services/scheduler/sandbox";

const MUTATIONS: readonly Mutation[] = [
  {
    invariant: "I1",
    file: `${BRAIN}/turn/calls.ts`,
    from: 'const started = open.filter(({ status }) => status === "started");',
    to: "const started = open;",
    tests: `${BRAIN}/turn/turn.test.ts`,
    named: "I1",
  },
  {
    invariant: "I2",
    file: "services/pistisd/state/call-records.ts",
    from: 'appendLine(path, "ax", beginning);',
    to: 'appendLine(path, "a", beginning);',
    tests: "services/pistisd/state/state.test.ts",
    named: "I2",
  },
  {
    invariant: "I3",
    file: `${BRAIN}/session/decide.ts`,
    from: 'if (call === undefined || call.status === "closed") return [];',
    to: "if (call === undefined) return [];",
    tests: `${BRAIN}/session/decide.test.ts`,
    named: "I3",
  },
  {
    invariant: "I4",
    file: `${BRAIN}/session/decide.ts`,
    from: 'if (session.status !== "working" || session.turn.epoch !== epoch) {',
    to: 'if (session.status !== "working") {',
    tests: `${BRAIN}/session/decide.test.ts`,
    named: "I4",
  },
  {
    invariant: "I5",
    file: `${BRAIN}/turn/call.ts`,
    from: 'return effect === "reads" ? unknownRead(call.callId, why) : unknown(call.callId, `sandbox_${error.code}`, why);',
    to: 'return notRun(call.callId, "lost", why);',
    tests: `${BRAIN}/turn/recovery.test.ts`,
    named: "I5",
  },
  {
    invariant: "I6",
    file: `${BRAIN}/session/decide.ts`,
    from: 'if (openCalls(session).length > 0) throw new Refusal("calls_open", "A reply cannot follow while calls are open");',
    to: "",
    tests: `${BRAIN}/session/decide.test.ts`,
    named: "I6",
  },
  {
    invariant: "I7",
    file: `${SCHEDULER}/decide.ts`,
    from: 'if (!state.ended) throw new Refusal("session_open", `${session} is not over, so its sandbox stays`);',
    to: "",
    tests: `${SCHEDULER}/decide.test.ts`,
    named: "I7",
  },
  {
    invariant: "I8",
    file: `${SCHEDULER}/decide.ts`,
    from: 'return need === "unreachable" ? [requested("inspect", state, sandbox, taskId)] : [];',
    to: 'return [requested("create", state, { ...sandbox, generation: sandbox.generation + 1 }, taskId)];',
    tests: `${SCHEDULER}/decide.test.ts`,
    named: "I8",
  },
];

const { values } = parseArgs({ options: { inject: { type: "string" }, only: { type: "string" } } });
const copy = copyOfTree();
try {
  for (const mutation of MUTATIONS) {
    if (values.only !== undefined && mutation.invariant !== values.only) continue;
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
  const violated = values.inject === undefined ? [] : injected(tree, values.inject);
  writeFileSync(path, text);
  const caught = before.length === 0 && after.length > 0;
  say(`${invariant}  ${caught ? "caught" : "NOT CAUGHT"}  ${file}\n      - ${from}\n      + ${to}`);
  for (const name of before) say(`      red before the change: ${name}`);
  for (const name of after) say(`      red: ${name}`);
  for (const line of violated) say(`      injector: ${line}`);
  return caught;
}

/** Titles of the named tests that fail in this tree. */
function redTests(tree: string, { tests, named }: Mutation): string[] {
  const mocha = join(tree, "node_modules", "mocha", "bin", "mocha.js");
  const args = [mocha, tests, "--reporter", "json", ...(named === "" ? [] : ["--grep", `\\b${named}\\b`])];
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
function injected(tree: string, faults: string): string[] {
  const script = join(tree, "integration", "faults", "soak.ts");
  const env = { ...process.env, PATH: `${dirname(NODE)}:${process.env["PATH"]}` };
  const { stdout } = spawnSync(NODE, [script, "--faults", faults, "--seed", "1", "--no-steps"], {
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
