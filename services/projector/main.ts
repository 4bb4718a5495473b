// The projector alone: as `pistis projector`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { projectorProcess } from "./process.ts";

await runAsMain(projectorProcess, process);
