// The publisher alone: as `pistis publisher`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { publisherProcess } from "./process.ts";

await runAsMain(publisherProcess, process);
