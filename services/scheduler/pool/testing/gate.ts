import { createServer, type Server } from "node:http";
import type { Relay } from "../../relay/join-tokens.ts";

export class Crash extends Error {
  override readonly name = "Crash";
}

/** Every await of a scheduler on something outside goes through here. */
export type Gate = <T>(work: () => Promise<T>) => Promise<T>;

/** Before and after each work is a point to die at; who has died does nothing any more. */
export function openGate(crashAt: number): Gate {
  let passed = 0;
  const point = () => {
    passed += 1;
    if (passed >= crashAt) throw new Crash(`Died at await ${crashAt}`);
  };
  return async (work) => {
    point();
    const result = await work();
    point();
    return result;
  };
}

export type GuestRelay = Relay &
  Readonly<{
    guests: Map<string, { session: string; generation: number; bootId: string }>;
    /** From now on it answers this to every question about a guest. */
    garble: (answer: { status: number; text: string }) => void;
    close: () => Promise<void>;
  }>;

/** The relay's admin endpoints over real HTTP: takes every join token, and sees the guests that there are. */
export async function startGuestRelay(): Promise<GuestRelay> {
  const guests: GuestRelay["guests"] = new Map();
  let garbled: { status: number; text: string } | undefined;
  const server: Server = createServer((request, response) => {
    request.resume();
    if (request.method !== "GET") return response.writeHead(204).end();
    if (garbled !== undefined) return response.writeHead(garbled.status).end(garbled.text);
    const guest = guests.get(request.url?.split("/").at(-1) ?? "");
    const status = { online: guest !== undefined, bootId: guest?.bootId ?? null, generation: guest?.generation ?? 1 };
    return response.writeHead(200).end(JSON.stringify(status));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`,
    adminKey: "key",
    guests,
    garble: (answer) => {
      garbled = answer;
    },
    close,
  };
}
