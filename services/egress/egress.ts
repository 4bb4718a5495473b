// The way out of a sandbox: a forward proxy that the relay pipes the sandbox's connections to.
import { createServer } from "node:http";
import type { EgressAddress } from "#schemas/network/egress-pipe.ts";
import type { AskNetwork } from "#shared/nats/network-questions.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService, Start } from "#shared/service/service.ts";
import { type EgressLimits, egressLimits } from "./limits.ts";
import { openPipe } from "./pipe/pipe.ts";

export type EgressDependencies = Readonly<{
  address: EgressAddress;
  /** `PISTIS_EGRESS_KEY` */
  key: string;
  /** What a sandbox may reach, from the ledger. */
  askNetwork: AskNetwork;
  limits?: Partial<EgressLimits>;
}>;

export const startEgress: Start<EgressDependencies> = async (dependencies): Promise<RunningService> => {
  const { address, key, log } = dependencies;
  const limits: EgressLimits = { ...egressLimits, ...dependencies.limits };
  const resources = new Resources();
  const server = createServer((_request, response) => {
    response.writeHead(403, { connection: "close" });
    response.end();
  });
  const { greetingMs, connectionsMax } = limits;
  const onConnection = (socket: object) => server.emit("connection", socket);
  const pipe = await openPipe({ address, key, greetingMs, connectionsMax, onConnection, log });
  resources.add("pipe", pipe, ({ close }) => close());
  log.info({ address }, "The egress service listens");
  return { name: "egress", close: () => resources.close() };
};
