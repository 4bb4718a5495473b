// `npm run test:all`: every test, in two lanes beside each other, because most of them wait for a process, a server or a
// container most of the time; and then, alone, the one that keeps every processor busy with starts.
// `npm run test:all -- FILE...` runs only these, one after another.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
/** The tests start hundreds of processes of this repository's code: each finds it compiled. */
const COMPILED = join(ROOT, "node_modules", ".cache", "compiled");
const TESTS = "{schemas,shared,services,integration}/**/*.test.ts";
/** What needs Docker's engine, in one lane since some of it kills the engine; and as much more as evens the lanes out. */
const ENGINE_LANE = [
  /^services\/(providers\/docker|docker-proxy|docker-firewall)\//,
  /^integration\/(canaries|compose|escape|images)\//,
  /docker[^/]*\.int\.test\.ts$/,
  /^integration\/(warm-pool|away|processes)\.int\.test\.ts$/,
  /^services\/cli\/(dev|doctor|service)\//,
];
/** Beside it a container does not start in any time that a test would wait. */
const ALONE = [/^integration\/faults\/faults\.int\.test\.ts$/];

async function runTests(chosen: readonly string[]): Promise<number> {
  if (chosen.length > 0) return mocha(chosen);
  const files = globSync(TESTS, { cwd: ROOT }).sort();
  const isOne = (file: string, of: readonly RegExp[]) => of.some((pattern) => pattern.test(file));
  const alone = files.filter((file) => isOne(file, ALONE));
  const beside = files.filter((file) => !alone.includes(file));
  const lanes = {
    engine: beside.filter((file) => isOne(file, ENGINE_LANE)),
    others: beside.filter((file) => !isOne(file, ENGINE_LANE)),
  };
  const codes = await Promise.all(Object.entries(lanes).map(([lane, own]) => mocha(own, lane)));
  return Math.max(...codes, await mocha(alone, "alone"));
}

/** Resolves with its exit code. */
async function mocha(files: readonly string[], lane?: string): Promise<number> {
  const program = join(ROOT, "node_modules", "mocha", "bin", "mocha.js");
  const env = { ...process.env, NODE_COMPILE_CACHE: COMPILED, ...(lane === undefined ? {} : { MOCHA_LANE: lane }) };
  const child = spawn(process.execPath, [program, ...files], { cwd: ROOT, env, stdio: "inherit" });
  const [code]: unknown[] = await once(child, "exit");
  return typeof code === "number" ? code : 1;
}

process.exitCode = await runTests(process.argv.slice(2));
