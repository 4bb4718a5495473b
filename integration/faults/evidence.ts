// What there is to look at when a run found something: the processes' last lines, the ledger and the faults.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessName, ServiceProcesses } from "../testing/service-processes.ts";
import type { Fault } from "./director.ts";
import type { ReadMessage } from "./ledger-reader.ts";
import type { Mark } from "./observed.ts";

export type Evidence = Readonly<{
  install: ServiceProcesses;
  processes: readonly ProcessName[];
  ledger: readonly ReadMessage[];
  marks: readonly Mark[];
  faults: readonly Fault[];
  found: readonly unknown[];
}>;

/** One file per process, `ledger.jsonl`, `marks.jsonl`, `faults.jsonl` and `found.jsonl`. The folder is made. */
export async function keepEvidence(folder: string, evidence: Evidence): Promise<void> {
  const { install, processes, ledger, marks, faults, found } = evidence;
  await mkdir(folder, { recursive: true });
  const keep = (name: string, lines: readonly string[]) => writeFile(join(folder, name), `${lines.join("\n")}\n`);
  for (const name of processes) await keep(`${name}.log`, install.lines(name));
  await keep("ledger.jsonl", ledger.map(lineOf));
  await keep(
    "marks.jsonl",
    marks.map((mark) => JSON.stringify(mark)),
  );
  await keep(
    "faults.jsonl",
    faults.map((fault) => JSON.stringify(fault)),
  );
  await keep(
    "found.jsonl",
    found.map((one) => JSON.stringify(one)),
  );
}

function lineOf({ message, storedAtMs }: ReadMessage): string {
  const { id, session, sequence, writer, causationId, events } = message;
  return JSON.stringify({ at: new Date(storedAtMs).toISOString(), sequence, session, writer, id, causationId, events });
}
