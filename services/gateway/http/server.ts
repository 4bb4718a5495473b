// The HTTP server: express under a node server that can be closed.
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import express, { type Express } from "express";
import { Fatal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { errorHandler, sendError } from "./answer-error.ts";
import { adminOnly, hostCheck, noHead, quietResponses, securityHeaders } from "./guard.ts";
import { type Handlers, mount } from "./mount.ts";

export type Listening = Readonly<{ server: Server; inHand: ReadonlySet<ServerResponse>; url: string }>;

export type ServerOptions = Readonly<{ host: string; port: number; adminToken: string; handlers: Handlers; log: Log }>;

/** A request whose headers or body come slower than this is given up. */
const REQUEST_MS = 120_000;
const KEEP_ALIVE_MS = 65_000;

export function expressApp({ host, adminToken, handlers, log }: Omit<ServerOptions, "port">): Express {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.set("query parser", "simple");
  app.set("case sensitive routing", true);
  app.use(quietResponses(log), securityHeaders, hostCheck(host));
  app.use("/v1", noHead);
  mount(app, handlers, adminOnly(adminToken));
  app.use((request, response) => {
    const message = `There is no ${request.method} ${request.path}`.slice(0, 500);
    sendError(response, { code: "route_not_found", message, next: "GET /v1/openapi.json lists what there is." });
  });
  app.use(errorHandler(log));
  return app;
}

/** Resolves when it listens. Throws Fatal `gateway_cannot_listen` when the address is taken or not this machine's. */
export async function listen(options: ServerOptions): Promise<Listening> {
  const server = createServer({ requestTimeout: REQUEST_MS, keepAliveTimeout: KEEP_ALIVE_MS }, expressApp(options));
  const inHand = new Set<ServerResponse>();
  server.on("request", (_request, response) => {
    inHand.add(response);
    response.once("close", () => inHand.delete(response));
  });
  server.listen(options.port, options.host);
  await once(server, "listening").catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Fatal("gateway_cannot_listen", `The HTTP API cannot listen: ${reason}`, {
      cause,
      next: "Choose another port (server.port in pistis.json, or --port), or stop what already listens there.",
    });
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  const name = options.host.includes(":") ? `[${options.host}]` : options.host;
  return { server, inHand, url: `http://${name}:${port}` };
}

/** Takes no new request, waits for those in hand, and cuts what is not done after `closeMs`. */
export async function closeServer({ server, inHand }: Listening, closeMs: number): Promise<void> {
  const closed = once(server, "close");
  server.close();
  const answered = [...inHand].map((response) => new Promise((resolve) => response.once("close", resolve)));
  const cut = setTimeout(() => server.closeAllConnections(), closeMs);
  await Promise.race([Promise.all(answered), closed]);
  // Clients open connections ahead of need: one that has asked nothing holds up nobody.
  server.closeAllConnections();
  await closed;
  clearTimeout(cut);
}
