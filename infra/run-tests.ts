// `npm run test:all`: every test, in two lanes beside each other, because most of them wait for a process, a server or a
// container most of the time.
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
  /^services\/cli\//,
];

async function runTests(chosen: readonly string[]): Promise<number> {
  if (chosen.length > 0) return mocha(chosen);
  const files = globSync(TESTS, { cwd: ROOT }).sort();
  const isOfEngineLane = (file: string) => ENGINE_LANE.some((pattern) => pattern.test(file));
  const lanes = {
    engine: files.filter(isOfEngineLane),
    others: files.filter((file) => !isOfEngineLane(file)),
  };
  return Math.max(...(await Promise.all(Object.entries(lanes).map(([lane, own]) => mocha(own, lane)))));
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
