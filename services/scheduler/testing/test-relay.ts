// The two admin endpoints that the scheduler uses, over real HTTP.
import { createServer, type IncomingMessage, type Server } from "node:http";
import { joinTokenRegistration, relayPaths } from "#schemas/wire/relay-http.ts";

export const ADMIN_KEY = "a-key-for-the-test";

export type TestRelay = Awaited<ReturnType<typeof startTestRelay>>;

export async function startTestRelay() {
  const registrations: ReturnType<typeof joinTokenRegistration.parse>[] = [];
  const revoked = new Map<string, PromiseWithResolvers<void>>();
  const revocation = (sandboxId: string) => {
    const known = revoked.get(sandboxId) ?? Promise.withResolvers<void>();
    revoked.set(sandboxId, known);
    return known;
  };
  let failures = 0;
  const answer = async (request: IncomingMessage): Promise<number> => {
    if (request.headers.authorization !== `Bearer ${ADMIN_KEY}`) return 401;
    if (failures > 0) {
      failures -= 1;
      return 503;
    }
    if (request.method === "DELETE") {
      revocation(request.url?.split("/").at(-1) ?? "").resolve();
      return 204;
    }
    if (request.url !== relayPaths.joinTokens) return 404;
    registrations.push(joinTokenRegistration.parse(JSON.parse((await request.toArray()).join(""))));
    return 204;
  };
  const server: Server = createServer((request, response) => {
    void answer(request).then((status) => response.writeHead(status).end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`,
    registrations,
    revoked: (sandboxId: string) => revocation(sandboxId).promise,
    failNext: (count: number) => {
      failures = count;
    },
    failuresLeft: () => failures,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
