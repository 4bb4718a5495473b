// `npm run soak -- --faults N [--seed S] [--json FILE]`: rounds of faults, each on an install of its own, until there
// were N. The first round goes through every named step; the others are random.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { wholeNumber } from "#services/cli/option-values.ts";
import { FAULT_KINDS } from "./fault-kinds.ts";
import { type RunResult, run } from "./injector.ts";
import { summaryOf } from "./summary.ts";

const FAULTS_MAX = 1_000_000_000;
const SEED_MAX = 2 ** 31 - 1;
const TELL_EVERY = 50;

type Options = Readonly<{
  faults: number;
  seed?: number;
  json?: string;
  kinds?: readonly string[];
  round: number;
  atOnce?: number;
  steps: boolean;
  verbose?: boolean;
  evidence?: string;
}>;

const about = `
Each round starts an install of its own: nats-server, PostgreSQL, every service and bubblewrap sandboxes. 10,000 faults
take one to three hours of two processors; nothing else should run beside them. After each round a line of JSON says what
was found so far; the exit code is 1 when anything was violated or a service ended by itself.

Kinds: ${Object.keys(FAULT_KINDS).join(", ")}`;

const options = new Command("npm run soak --")
  .description(
    "Makes an install fail, again and again, and checks I1 to I8 against the ledger and the sandboxes' disks.",
  )
  .option("--faults <n>", "faults in all", wholeNumber(1, FAULTS_MAX), 10_000)
  .option("--seed <s>", "of the first round; drawn when absent", wholeNumber(0, SEED_MAX))
  .option("--json <file>", "write the summary there, after each round")
  .option("--kinds <list>", "draw no others, with commas between them", kinds)
  .option("--round <n>", "faults of a round", wholeNumber(1, FAULTS_MAX), 500)
  .option("--at-once <n>", "random faults under way at once (default: 3)", wholeNumber(1, 100))
  .option("--no-steps", "do not go through every named step in the first round")
  .option("--verbose", "say what happens when")
  .option("--evidence <folder>", "keep logs, ledger and faults of a round that found something there")
  .addHelpText("after", about)
  .showHelpAfterError("  next: see npm run soak -- --help")
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>();

const firstSeed = options.seed ?? Math.floor(Math.random() * SEED_MAX);
const startedAt = performance.now();
const results: RunResult[] = [];
let count = 0;

for (let round = 0; count < options.faults; round++) {
  const seed = firstSeed + round;
  process.stdout.write(`Round ${round + 1}, seed ${seed}, ${count} of ${options.faults} faults done\n`);
  const result = await run({
    seed,
    faults: Math.min(options.round, options.faults - count),
    allSteps: options.steps && round === 0,
    strikesAtOnce: options.atOnce,
    kinds: options.kinds ?? [],
    evidence: options.evidence && join(options.evidence, `seed-${seed}`),
    told: (faults) => {
      if (!options.verbose && faults % TELL_EVERY === 0) process.stdout.write(`  ${count + faults} faults\n`);
    },
    say: (line) =>
      void (options.verbose && process.stdout.write(`${new Date().toISOString().slice(14, 23)} ${line}\n`)),
  });
  results.push(result);
  count += result.faults.length;
  for (const { of, session, text } of result.violations) process.stdout.write(`VIOLATION ${of} ${session}: ${text}\n`);
  if (options.verbose) for (const slow of result.figures.slowTakeOvers) process.stdout.write(`SLOW ${slow}\n`);
  for (const exit of result.exits) process.stdout.write(`EXIT ${exit}\n`);
  write();
}

function kinds(text: string): readonly string[] {
  const list = text.split(",").map((kind) => kind.trim());
  const strange = list.find((kind) => !Object.hasOwn(FAULT_KINDS, kind));
  if (strange === undefined) return list;
  throw new InvalidArgumentError(`There is no kind "${strange}".`);
}

function write(): void {
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  const summary = { ...summaryOf(results), seed: firstSeed, seconds };
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(summary, undefined, 2)}\n`);
  process.stdout.write(`${JSON.stringify(summary)}\n`);
  if (summary.exits > 0 || Object.values(summary.violations).some((violations) => violations > 0)) process.exitCode = 1;
}
