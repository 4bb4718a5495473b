import { expect } from "chai";
import { operations } from "#schemas/api/operations.ts";
import { pathTemplates } from "#schemas/api/paths.ts";
import { silentLog } from "#shared/service/log.ts";
import type { Handlers } from "./mount.ts";
import { expressApp } from "./server.ts";

type Layer = Readonly<{
  route?: { path: string; stack: readonly { method?: string }[] } | undefined;
  handle?: unknown;
}>;

/** Every route of an express app with a method of its own, however deep. */
function routesOf(stack: readonly Layer[]): string[] {
  return stack.flatMap(({ route, handle }) => {
    const inner = typeof handle === "function" && "stack" in handle && Array.isArray(handle.stack) ? handle.stack : [];
    const methods = new Set(route?.stack.flatMap(({ method }) => (method === undefined ? [] : [method])));
    return [...[...methods].map((method) => `${method} ${route?.path}`), ...routesOf(inner)];
  });
}

describe("the routes of the gateway", () => {
  it("are exactly the operations of the API, which the OpenAPI document lists too", () => {
    const app = expressApp({ host: "127.0.0.1", adminToken: "t", handlers: unusedHandlers(), log: silentLog });
    const mounted = routesOf(app.router.stack);
    const described = Object.values(operations).map(
      ({ method, path }) => `${method} ${pathTemplates[path].replace(/\{(\w+)\}/g, ":$1")}`,
    );
    expect(mounted.sort()).to.deep.equal(described.sort());
  });
});

function unusedHandlers(): Handlers {
  const unused = async () => expect.fail("No request is made");
  return {
    createSession: unused,
    listSessions: unused,
    getSession: unused,
    endSession: unused,
    postMessage: unused,
    withdrawMessage: unused,
    interrupt: unused,
    listEvents: unused,
    streamSession: unused,
    streamInstall: unused,
    listFiles: unused,
    readFile: unused,
    readCallOutput: unused,
    openapi: unused,
    health: unused,
    ready: unused,
  };
}
