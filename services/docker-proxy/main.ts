// docker-proxy alone: as `pistis docker-proxy`, for a container that needs no command line.
import { runAsMain } from "#shared/service/service-process.ts";
import { dockerProxyProcess } from "./process.ts";

await runAsMain(dockerProxyProcess, process);
