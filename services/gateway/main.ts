// The gateway alone: as `pistis gateway`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { gatewayProcess } from "./process.ts";

await runAsMain(gatewayProcess, process);
