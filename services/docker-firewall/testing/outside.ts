// What lies around the sandboxes of a test: a network namespace that stands in for the internet, a private network behind
// the same router and a metadata service, each with an HTTP server; and ports of this machine itself.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { Resources } from "#shared/service/resources.ts";
import { run } from "./command.ts";

export const INTERNET = "203.0.113.10";
export const PRIVATE = "192.168.213.10";
export const METADATA = "169.254.169.254";
export const HOST_ON_LINK = "203.0.113.254";
export const PORT = 18_080;
/** The test's own subnets, in a range that nothing else here uses. */
export const POOL = "198.18.77.0/24";

const SERVER = `
const { createServer } = require("node:http");
createServer((request, response) => response.end("reached")).listen(${PORT}, "0.0.0.0", () => console.log("ready"));
`;

/** Resolves when everything answers. All of it is gone when `resources` close. */
export async function openOutside(resources: Resources): Promise<void> {
  const name = `pistis-fw-${process.pid}`;
  const [near, far] = [`pfw${process.pid % 100_000}a`, `pfw${process.pid % 100_000}b`];
  await run("ip", "netns", "add", name);
  resources.add("namespace", name, () => run("ip", "netns", "delete", name));
  await run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name);
  resources.add("link", near, () => run("ip", "link", "delete", near));
  await run("ip", "address", "add", `${HOST_ON_LINK}/24`, "dev", near);
  await run("ip", "link", "set", near, "up");
  const inside = (...args: string[]) => run("ip", "-n", name, ...args);
  await inside("link", "set", "lo", "up");
  await inside("address", "add", `${INTERNET}/24`, "dev", far);
  for (const address of [PRIVATE, METADATA]) await inside("address", "add", `${address}/32`, "dev", "lo");
  await inside("link", "set", far, "up");
  for (const address of [PRIVATE, METADATA]) await run("ip", "route", "add", `${address}/32`, "via", INTERNET);
  const server = spawn("ip", ["netns", "exec", name, process.execPath, "-e", SERVER], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  resources.add("server", server, endOf);
  await firstOutput(server);
}

/** A port of this machine, on all its addresses. */
export async function openHostPort(resources: Resources): Promise<number> {
  const server: Server = createServer((_request, response) => response.end("reached"));
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, "0.0.0.0", resolve);
  await promise;
  resources.add("host port", server, async (open) => {
    open.closeAllConnections();
    open.close();
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

function firstOutput(child: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.stdout?.once("data", () => resolve());
  child.once("exit", (code) => reject(new Error(`The server ended with exit code ${code}`)));
  return promise;
}

function endOf(child: ChildProcess): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  child.once("exit", () => resolve());
  child.kill("SIGKILL");
  return promise;
}
