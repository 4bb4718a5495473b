// The scheduler alone: as `pistis scheduler`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { schedulerProcess } from "./process.ts";

await runAsMain(schedulerProcess, process);
