// Who may connect to NATS: one nkey user per service. The keys are made at the first start and kept in the state
// directory; the server's configuration holds the public halves only.
import { createUser } from "nkeys.js";
import { z } from "zod";

/** CORE: the ledger and the services that are trusted with it. */
export const CORE_USERS = ["setup", "gateway", "brain", "scheduler", "publisher", "projector"] as const;
/** EDGE: what a hostile guest can talk to, and the scheduler's second connection. */
export const EDGE_USERS = [
  "edge-setup",
  "edge-scheduler",
  "provider-local",
  "provider-docker",
  "relay",
  "egress",
] as const;

const natsUser = z.enum([...CORE_USERS, ...EDGE_USERS]);

export type NatsUser = z.output<typeof natsUser>;

const natsKey = z.strictObject({
  seed: z.string().regex(/^SU[A-Z2-7]{56}$/),
  publicKey: z.string().regex(/^U[A-Z2-7]{55}$/),
});

export type NatsKey = z.output<typeof natsKey>;

/** Reads keys back from their file. */
export const natsKeys = z.record(natsUser, natsKey);

export type NatsKeys = z.output<typeof natsKeys>;

/** Fresh keys for every user. The seeds are secrets: keep the file readable by its owner only. */
export function newNatsKeys(): NatsKeys {
  return natsKeys.parse(Object.fromEntries(natsUser.options.map((user) => [user, newKey()])));
}

function newKey(): NatsKey {
  const pair = createUser();
  return { seed: new TextDecoder().decode(pair.getSeed()), publicKey: pair.getPublicKey() };
}
