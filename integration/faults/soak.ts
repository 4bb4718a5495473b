// `npm run soak -- --faults N [--seed S] [--json FILE]`: rounds of faults, each on an install of its own, until there
// were N. --kinds "kill brain,cut network" draws no others (fault-kinds.ts). The first round goes through every named step
// (not with --no-steps); the others are random. --round N: faults of a round; --at-once N: faults under way at once. Ends
// with 1 when anything is violated. --verbose says what happens when; --evidence FOLDER keeps logs, ledger and faults of a
// round that found something.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type RunResult, run } from "./injector.ts";
import { summaryOf } from "./summary.ts";

const { values } = parseArgs({
  options: {
    faults: { type: "string", default: "10000" },
    seed: { type: "string" },
    json: { type: "string" },
    kinds: { type: "string" },
    round: { type: "string", default: "500" },
    "at-once": { type: "string" },
    evidence: { type: "string" },
    verbose: { type: "boolean", default: false },
    steps: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const wanted = numberOf("faults", values.faults);
const roundMax = numberOf("round", values.round);
const strikesAtOnce = values["at-once"] === undefined ? undefined : numberOf("at-once", values["at-once"]);
const firstSeed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : numberOf("seed", values.seed);
const startedAt = performance.now();
const results: RunResult[] = [];
let count = 0;

for (let round = 0; count < wanted; round++) {
  const seed = firstSeed + round;
  process.stdout.write(`Round ${round + 1}, seed ${seed}, ${count} of ${wanted} faults done\n`);
  const result = await run({
    seed,
    faults: Math.min(roundMax, wanted - count),
    allSteps: values.steps && round === 0,
    strikesAtOnce,
    kinds: values.kinds?.split(",") ?? [],
    evidence: values.evidence && join(values.evidence, `seed-${seed}`),
    say: (line) => void (values.verbose && process.stdout.write(`${new Date().toISOString().slice(14, 23)} ${line}\n`)),
  });
  results.push(result);
  count += result.faults.length;
  for (const { of, session, text } of result.violations) process.stdout.write(`VIOLATION ${of} ${session}: ${text}\n`);
  if (values.verbose) for (const slow of result.figures.slowTakeOvers) process.stdout.write(`SLOW ${slow}\n`);
  for (const exit of result.exits) process.stdout.write(`EXIT ${exit}\n`);
  write();
}

function numberOf(option: string, text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new Error(`--${option} is a whole number from 1 on, not ${text}`);
  return Number(text);
}

function write(): void {
  const summary = {
    ...summaryOf(results),
    seed: firstSeed,
    seconds: Math.round((performance.now() - startedAt) / 1_000),
  };
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(summary, undefined, 2)}\n`);
  process.stdout.write(`${JSON.stringify(summary)}\n`);
  if (Object.values(summary.violations).some((violations) => violations > 0)) process.exitCode = 1;
}
