// A whole install in this process, on real NATS, PostgreSQL and bubblewrap, in a folder of its own.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { z } from "zod";
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { pistisConfig } from "#schemas/config/pistis-config.ts";
import type { EventOf, EventType } from "#schemas/ledger/event.ts";
import { createSession, endSession, postMessage, type Server } from "#services/cli/client/api.ts";
import { followSession, type StreamItem } from "#services/cli/client/stream.ts";
import type { Context } from "#services/cli/context.ts";
import { startInstall } from "#services/cli/dev/install.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { openTerminal } from "#services/cli/terminal/terminal.ts";

export type ConfigFile = z.input<typeof pistisConfig>;

export type TestInstall = Readonly<{
  server: Server;
  statePath: string;
  close: () => Promise<void>;
}>;

/** Starts an install with this pistis.json. Its folder is removed at the end unless the caller named it. */
export async function openTestInstall(config: ConfigFile = {}, folder?: string): Promise<TestInstall> {
  const root = folder ?? (await mkdtemp(join(tmpdir(), "pistis-install-")));
  await mkdir(root, { recursive: true });
  const configFile = join(root, "pistis.json");
  const sandboxes = { provider: "local", ...config.sandboxes };
  await writeFile(configFile, JSON.stringify({ ...config, sandboxes }));
  const context = quietContext(root);
  const state = stateFolder(join(root, "state"), {}, root);
  const install = await startInstall(context, state, { port: 0, config: configFile, command: "a test" });
  return {
    server: { url: install.url, token: install.adminToken },
    statePath: state.path,
    close: async () => {
      await install.close();
      if (folder === undefined) await rm(root, { recursive: true, force: true });
    },
  };
}

function quietContext(cwd: string): Context {
  const dropped = { write: () => true };
  return {
    environment: {},
    cwd,
    terminal: openTerminal(dropped, dropped, {}),
    onStop: () => () => undefined,
  };
}

/** One session and all that its stream showed so far. */
export type FollowedSession = Readonly<{
  id: string;
  messages: readonly LedgerMessageView[];
  /** `performance.now()` at which each message arrived here. */
  arrivals: ReadonlyMap<number, number>;
  /** Posts and resolves with the message's id. */
  post: (text: string) => Promise<string>;
  /** The `count`-th event of the type, from the session's start; waits for it. */
  event: <Type extends EventType>(type: Type, count?: number) => Promise<EventOf<Type>["data"]>;
  /** All events of the type that were seen. */
  seen: <Type extends EventType>(type: Type) => EventOf<Type>["data"][];
  /** Resolves when the live output of all commands so far fits; it may come after the ledger's own events. */
  liveOutput: (fits: (text: string) => boolean) => Promise<void>;
  end: () => Promise<void>;
  close: () => Promise<void>;
}>;

/** Opens a session and follows it by the HTTP API. */
export async function openTestSession(
  server: Server,
  body: Parameters<typeof createSession>[1] = {},
): Promise<FollowedSession> {
  const { session } = await createSession(server, body);
  return followTestSession(server, session.id);
}

export async function followTestSession(server: Server, id: string): Promise<FollowedSession> {
  const messages: LedgerMessageView[] = [];
  const byType = new Map<EventType, LedgerMessageView["events"]>();
  const arrivals = new Map<number, number>();
  const waiting = new Set<() => void>();
  const stop = new AbortController();
  let live = "";
  const take = (item: StreamItem) => {
    if (item.kind === "live" && item.message.kind === "output") live += item.message.text;
    if (item.kind === "ledger") {
      messages.push(item.message);
      for (const event of item.message.events) {
        const known = byType.get(event.type);
        if (known === undefined) byType.set(event.type, [event]);
        else known.push(event);
      }
      arrivals.set(item.message.sequence, performance.now());
    }
    for (const look of [...waiting]) look();
  };
  const following = (async () => {
    for await (const item of followSession(server, id, 0, stop.signal)) take(item);
  })();
  const seen = <Type extends EventType>(type: Type): EventOf<Type>["data"][] =>
    (byType.get(type) ?? []).flatMap((event) => dataOf(event, type));
  const event = <Type extends EventType>(type: Type, count = 1) => until(() => seen(type)[count - 1]);
  const until = async <T>(look: () => T | undefined): Promise<T> => {
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.add(resolve);
      const ended = await Promise.race([promise.then(() => false), following.then(() => true)]);
      waiting.delete(resolve);
      if (ended) throw new Error("The session's stream has ended");
    }
  };
  return {
    id,
    messages,
    arrivals,
    post: async (text) => (await postMessage(server, id, { text })).messageId,
    event,
    seen,
    liveOutput: (fits) => until(() => (fits(live) ? true : undefined)).then(() => undefined),
    end: async () => {
      await endSession(server, id);
      await event("SessionEnded");
    },
    close: async () => {
      stop.abort();
      await following;
    },
  };
}

function dataOf<Type extends EventType>(
  event: { type: EventType; data: unknown },
  type: Type,
): EventOf<Type>["data"][] {
  return event.type === type ? [event.data as EventOf<Type>["data"]] : [];
}
