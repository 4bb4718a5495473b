// npm run bench [-- --json FILE] [-- --only NAME]: every figure beside a raw baseline of the same run.
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { benches } from "./benches.ts";
import { printTable, type Row } from "./row.ts";

const USAGE = `Usage: npm run bench -- [--json FILE] [--only NAME] [--list]

Prints a table; a figure that misses its aim makes the exit code 1 only with --strict.
Benches: ${benches.map((bench) => bench.name).join(", ")}`;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      json: { type: "string" },
      only: { type: "string" },
      list: { type: "boolean", default: false },
      strict: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help || values.list) {
    console.log(USAGE);
    return 0;
  }
  const chosen = benches.filter((bench) => values.only === undefined || bench.name === values.only);
  if (chosen.length === 0) {
    console.error(`No bench is called ${values.only}.\n${USAGE}`);
    return 2;
  }
  const rows: Row[] = [];
  for (const bench of chosen) {
    console.error(`${bench.name} ...`);
    rows.push(...(await bench.run()));
  }
  console.log(printTable(rows));
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(rows, null, 2)}\n`);
  return values.strict && rows.some((entry) => !entry.holds) ? 1 : 0;
}

process.exitCode = await main();
