// The egress service alone: as `pistis egress`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { egressProcess } from "./process.ts";

await runAsMain(egressProcess, process);
