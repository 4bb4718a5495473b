// One provider alone: `node services/providers/main.ts local`, as `pistis provider local`.
import { runAsMain } from "#shared/service/service-process.ts";
import { providerProcesses } from "./process.ts";

const kind = process.argv[2] ?? "";
const found = Object.entries(providerProcesses).find(([name]) => name === kind)?.[1];
if (found !== undefined) await runAsMain(found, process);
else {
  const known = Object.keys(providerProcesses).join(", ");
  process.stderr.write(`There is no provider ${JSON.stringify(kind)}\n  next: name one of: ${known}\n`);
  process.exitCode = 1;
}
