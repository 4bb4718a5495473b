// What the ledger of an install says of its warm pool, as it grows.
import type { EventOf, EventType } from "#schemas/ledger/event.ts";
import { isPoolMember } from "#schemas/scheduler/pool.ts";
import type { Server } from "#services/cli/client/api.ts";
import { followInstall } from "#services/cli/client/stream.ts";

export type WatchedMember = Readonly<{ member: string; events: ReadonlyArray<{ type: EventType; data: unknown }> }>;

export type PoolWatch = Readonly<{
  members: () => readonly WatchedMember[];
  /** Resolves when `fits` is true of all that was seen, now or when it comes. */
  until: (fits: (members: readonly WatchedMember[]) => boolean) => Promise<void>;
  close: () => Promise<void>;
}>;

export function watchPool(server: Server): PoolWatch {
  const known = new Map<string, { type: EventType; data: unknown }[]>();
  const stop = new AbortController();
  const waiting = new Set<() => void>();
  const members = () => [...known].map(([member, events]) => ({ member, events }));
  const following = (async () => {
    for await (const item of followInstall(server, { after: 0 }, stop.signal)) {
      if (item.kind !== "ledger" || !isPoolMember(item.message.session)) continue;
      const { session, events } = item.message;
      known.set(session, [...(known.get(session) ?? []), ...events]);
      for (const look of [...waiting]) look();
    }
  })();
  return {
    members,
    until: (fits) =>
      new Promise((resolve) => {
        const look = () => {
          if (!fits(members())) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    close: async () => {
      stop.abort();
      await following;
    },
  };
}

export function has({ events }: WatchedMember, type: EventType): boolean {
  return events.some((event) => event.type === type);
}

/** Joined, found closed, and nobody's yet. */
export function isWaiting(member: WatchedMember): boolean {
  return has(member, "EgressProbed") && !has(member, "PoolMemberClaimed") && !has(member, "PoolMemberRetired");
}

export function claimOf({ events }: WatchedMember): EventOf<"PoolMemberClaimed">["data"] | undefined {
  const claim = events.find(({ type }) => type === "PoolMemberClaimed");
  return claim?.data as EventOf<"PoolMemberClaimed">["data"] | undefined;
}
