// `npm run demo`: the main job on a real repository, this one, with everything embedded and a fresh state folder.
// It uses the command line as a person would, and fails when any part of it does.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";

const ROOT = resolve(import.meta.dirname, "..", "..");
const PISTIS = join(ROOT, "services", "cli", "pistis");
const TASK = resolve(process.argv[2] ?? join(import.meta.dirname, "task.md"));
const CAPTURED_BYTES_MAX = 64 * 1024 * 1024;

/** What this needs of a ledger message. */
const toolDone = z.object({
  events: z.array(
    z.object({ data: z.object({ outcome: z.object({ status: z.string(), exitCode: z.number().optional() }) }) }),
  ),
});

type Step = Readonly<{ name: string; ms: number; exitCode: number }>;

async function main(): Promise<number> {
  if (!isRepository()) return notARepository();
  const state = mkdtempSync(join(tmpdir(), "pistis-demo-"));
  const config = join(state, "pistis.json");
  writeFileSync(config, JSON.stringify(configuration()));
  const steps: Step[] = [];
  try {
    heading("1. What this machine has: pistis doctor");
    steps.push(await step("doctor", ["doctor", "--config", config, "--state", state]));
    if (failed(steps)) return summary(steps);
    heading("2. Everything starts: pistis dev");
    const dev = await startDev(state, config, steps);
    try {
      heading("3. The task: pistis run --script infra/demo/task.md --repo .");
      steps.push(await step("run", ["run", "--script", TASK, "--repo", ROOT, "--state", state]));
      steps.push(await everyCallSucceeded(state));
      heading("4. The sessions: pistis sessions");
      steps.push(await step("sessions", ["sessions", "--state", state]));
      heading("5. The ledger, every step of it: pistis events");
      steps.push(await step("events", ["events", "--state", state]));
    } finally {
      heading("6. Everything stops");
      steps.push(await stopDev(dev));
    }
    return summary(steps);
  } finally {
    rmSync(state, { recursive: true, force: true });
  }
}

/** The checkout's packages at /node_modules, so that imports resolve from /workspace/repo without an install there. */
function configuration(): object {
  return {
    server: { port: 0 },
    relay: { port: 0 },
    sandboxes: { provider: "local", local: { readOnly: { "/node_modules": join(ROOT, "node_modules") } } },
  };
}

function isRepository(): boolean {
  try {
    execFileSync("git", ["-c", "safe.directory=*", "-C", ROOT, "rev-parse", "--verify", "--quiet", "HEAD"], {
      stdio: "ignore",
    });
    return true;
  } catch {
    // git says by its exit code that there is none, or none with a commit.
    return false;
  }
}

function notARepository(): number {
  console.error(`demo: ${ROOT} is no git repository with a commit, so there is nothing to copy into the sandbox`);
  console.error(
    "  next: clone Pistis instead of unpacking an archive, or here: git init && git add -A && git commit -m All",
  );
  return 1;
}

async function step(name: string, args: readonly string[]): Promise<Step> {
  const startedAt = performance.now();
  const child = spawn(PISTIS, args, { cwd: ROOT, stdio: "inherit" });
  const [exitCode] = await once(child, "exit");
  return { name, ms: performance.now() - startedAt, exitCode: typeof exitCode === "number" ? exitCode : 1 };
}

/** A turn is completed although a command in it failed: what became of each call stands in the ledger. */
async function everyCallSucceeded(state: string): Promise<Step> {
  const startedAt = performance.now();
  const args = ["events", "--type", "ToolDone", "--json", "--state", state];
  const lines = execFileSync(PISTIS, args, { cwd: ROOT, encoding: "utf8", maxBuffer: CAPTURED_BYTES_MAX })
    .trim()
    .split("\n");
  const outcomes = lines
    .flatMap((line) => (line === "" ? [] : toolDone.parse(JSON.parse(line)).events))
    .map(({ data }) => data.outcome);
  const good = outcomes.filter(
    ({ status, exitCode = 0 }) => (status === "exited" || status === "ok") && exitCode === 0,
  );
  console.log(`\n${good.length} of ${outcomes.length} calls succeeded`);
  const all = outcomes.length > 0 && good.length === outcomes.length;
  return { name: "every call succeeded", ms: performance.now() - startedAt, exitCode: all ? 0 : 1 };
}

/** Resolves when the server says where it listens. */
async function startDev(state: string, config: string, steps: Step[]): Promise<ChildProcess> {
  const startedAt = performance.now();
  const args = ["dev", "--port", "0", "--config", config, "--state", state];
  const child = spawn(PISTIS, args, { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit").then(() => "ended" as const);
  const ready = new Promise<"ready">((done) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      console.log(line.startsWith("token") ? "token  (not shown in the demo)" : line);
      if (line.startsWith("URL")) done("ready");
    });
  });
  if ((await Promise.race([ready, ended])) === "ended") throw new Error("pistis dev ended before it was ready");
  steps.push({ name: "dev, until ready", ms: performance.now() - startedAt, exitCode: 0 });
  return child;
}

async function stopDev(child: ChildProcess): Promise<Step> {
  const startedAt = performance.now();
  const gone = child.exitCode === null ? once(child, "exit") : Promise.resolve([child.exitCode]);
  child.kill("SIGTERM");
  const [exitCode] = await gone;
  return { name: "stop", ms: performance.now() - startedAt, exitCode: exitCode === 0 ? 0 : 1 };
}

function failed(steps: readonly Step[]): boolean {
  return steps.some(({ exitCode }) => exitCode !== 0);
}

function heading(text: string): void {
  console.log(`\n== ${text}\n`);
}

function summary(steps: readonly Step[]): number {
  heading("Summary");
  for (const { name, ms, exitCode } of steps) {
    console.log(
      `  ${name.padEnd(22)} ${(ms / 1_000).toFixed(2).padStart(7)} s   ${exitCode === 0 ? "ok" : `FAILED (${exitCode})`}`,
    );
  }
  console.log(
    failed(steps)
      ? "\nThe demo FAILED."
      : '\nAll of it worked. Next: npx pistis run "your task" --repo PATH, with a model in pistis.json.',
  );
  return failed(steps) ? 1 : 0;
}

// Ctrl-C reaches the commands too, which stop in order; this then cleans up after them.
process.on("SIGINT", () => console.log("interrupted"));
process.exitCode = await main();
