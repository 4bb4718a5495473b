// One provider alone: `node services/providers/main.ts local`, as `pistis provider local`.
import { runAsMain } from "#shared/service/service-process.ts";
import { providerProcess } from "./process.ts";

await runAsMain(providerProcess(process.argv[2] ?? ""), process);
