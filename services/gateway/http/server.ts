// The HTTP server: express under a node server that can be closed.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import express, { type Express } from "express";
import type { Log } from "#shared/service/log.ts";
import { errorHandler, sendError } from "./answer-error.ts";
import { adminOnly, hostCheck, noHead, quietResponses, securityHeaders } from "./guard.ts";
import { type Handlers, mount } from "./mount.ts";

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

/** Resolves when it listens. Rejects when the address is taken. */
export async function listen(options: ServerOptions): Promise<{ server: Server; url: string }> {
  const server = createServer({ requestTimeout: REQUEST_MS, keepAliveTimeout: KEEP_ALIVE_MS }, expressApp(options));
  server.listen(options.port, options.host);
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  const name = options.host.includes(":") ? `[${options.host}]` : options.host;
  return { server, url: `http://${name}:${port}` };
}

/** Takes no new request, waits for those in hand, and cuts what is not done after `closeMs`. */
export async function closeServer(server: Server, closeMs: number): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  const cut = setTimeout(() => server.closeAllConnections(), closeMs);
  await closed;
  clearTimeout(cut);
}
