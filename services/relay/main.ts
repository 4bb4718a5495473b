// The relay alone: as `pistis relay`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { relayProcess } from "./process.ts";

await runAsMain(relayProcess, process);
