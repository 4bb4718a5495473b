import { brainProcess } from "#services/brain/process.ts";
import { dockerProxyProcess } from "#services/docker-proxy/process.ts";
import { egressProcess } from "#services/egress/process.ts";
import { gatewayProcess } from "#services/gateway/process.ts";
import { projectorProcess } from "#services/projector/process.ts";
import { providerProcesses } from "#services/providers/process.ts";
import { publisherProcess } from "#services/publisher/process.ts";
import { relayProcess } from "#services/relay/process.ts";
import { schedulerProcess } from "#services/scheduler/process.ts";
import type { ServiceProcess } from "#shared/service/service-process.ts";

/** Every service that is a process of its own, in the order in which a person reads them. */
export const serviceProcesses: readonly ServiceProcess[] = [
  gatewayProcess,
  brainProcess,
  relayProcess,
  egressProcess,
  schedulerProcess,
  publisherProcess,
  projectorProcess,
  ...Object.values(providerProcesses),
  dockerProxyProcess,
];
