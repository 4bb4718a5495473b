// What sandboxes may reach, remembered: it does not change while a generation lives, so an old answer is still true when
// the scheduler is away, and only who is asked for the first time has to wait for it.
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import type { AskNetwork } from "#shared/nats/network-questions.ts";
import type { Client } from "../pipe/pipe.ts";

const KEPT_MAX = 10_000;
const FRESH_MS = 60_000;

type Known = { network: SandboxNetwork | undefined; atMs: number };

export type NetworkOf = (client: Client) => Promise<SandboxNetwork | undefined>;

/** `now`: milliseconds on a steady clock. */
export function rememberNetworks(ask: AskNetwork, now: () => number): NetworkOf {
  const known = new Map<string, Known>();
  const asking = new Map<string, Promise<SandboxNetwork | undefined>>();
  const askFor = async (key: string, { sandboxId, generation }: Client) => {
    try {
      const network = await ask({ sandboxId, generation });
      known.delete(key);
      // Who is unknown now may be known in a moment.
      if (network !== undefined) known.set(key, { network, atMs: now() });
      const oldest = known.keys().next();
      if (known.size > KEPT_MAX && !oldest.done) known.delete(oldest.value);
      return network;
    } catch (error) {
      const before = known.get(key);
      if (before === undefined) throw error;
      return before.network;
    }
  };
  return (client) => {
    const key = `${client.sandboxId} ${client.generation}`;
    const before = known.get(key);
    if (before !== undefined && now() - before.atMs < FRESH_MS) return Promise.resolve(before.network);
    const running = asking.get(key) ?? askFor(key, client).finally(() => asking.delete(key));
    asking.set(key, running);
    return running;
  };
}
