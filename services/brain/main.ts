// The brain alone: as `pistis brain`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { brainProcess } from "./process.ts";

await runAsMain(brainProcess, process);
