// Leases in a KV bucket whose entries vanish when they are not renewed: whoever creates the entry holds the session.
// A compare-and-swap on the entry's revision keeps it, so a holder that was deposed finds out at its next renewal.
import { headers, type JetStreamClient, type KV, type NatsConnection, NatsError } from "nats";
import { LEASES_BUCKET } from "#schemas/ledger/subjects.ts";
import { Fatal, Retryable } from "#shared/errors/errors.ts";
import { newSecret } from "#shared/ids/ids.ts";
import type { Lease, Leases } from "#shared/leases/leases.ts";

const RENEWALS_PER_TTL = 3;
/** Part of the TTL at its end in which the holder no longer trusts it: the others' clock may be that much ahead. */
const MARGIN = 0.1;
const WRONG_LAST_SEQUENCE = new Set([10_071, 10_164]);
const LEFT_MAX = 256;

/** `ttlMs` has to be the bucket's own (prepareNats); a Fatal `lease_ttl` says when it is not. */
export async function openLeases(options: { nats: NatsConnection; holder: string; ttlMs: number }): Promise<Leases> {
  const { nats, holder, ttlMs } = options;
  const jetstream = nats.jetstream();
  const bucket = await jetstream.views.kv(LEASES_BUCKET, { bindOnly: true, allow_direct: true });
  const { ttl } = await bucket.status();
  if (ttl !== ttlMs) throw new Fatal("lease_ttl", `Leases last ${ttl} ms in this install, not ${ttlMs} ms`);
  const place = { jetstream, bucket, holder, ttlMs, left: new Map() };
  return { acquire: (session) => acquire(place, session) };
}

type Place = Readonly<{
  jetstream: JetStreamClient;
  bucket: KV;
  holder: string;
  ttlMs: number;
  /** Revisions of the markers that this holder's last releases left in the bucket. */
  left: Map<string, number>;
}>;
/** `text` is this lease's own: no other one, not even of the same holder, has the same. */
type Entry = Readonly<{ session: string; text: string }>;
type Held = { revision: number; until: number };

async function acquire(place: Place, session: string): Promise<Lease | undefined> {
  const entry = { session, text: JSON.stringify({ holder: place.holder, lease: newSecret() }) };
  const askedAt = performance.now();
  const revision =
    (await overMarker(place, entry)) ?? (await exclusive(() => place.bucket.create(session, entry.text)));
  return revision === undefined ? undefined : hold(place, entry, { revision, until: askedAt + trusted(place) });
}

/** `create` fails over the marker of a release and asks for it: three requests at the start of a turn, not one. */
async function overMarker({ bucket, left }: Place, { session, text }: Entry): Promise<number | undefined> {
  const marker = left.get(session);
  left.delete(session);
  return marker === undefined ? undefined : exclusive(() => bucket.update(session, text, marker));
}

/** As the bucket's own `delete`, which does not tell the marker's revision. */
async function leaveMarker({ jetstream, left }: Place, session: string, revision: number): Promise<void> {
  const operation = headers();
  operation.set("KV-Operation", "DEL");
  const options = { headers: operation, expect: { lastSubjectSequence: revision } };
  const { seq } = await jetstream.publish(`$KV.${LEASES_BUCKET}.${session}`, "", options);
  left.set(session, seq);
  const [oldest] = left.keys();
  if (left.size > LEFT_MAX && oldest !== undefined) left.delete(oldest);
}

function hold(place: Place, entry: Entry, first: Held): Lease {
  const lost = new AbortController();
  let held = first;
  let renewing: Promise<void> = Promise.resolve();
  let ended = false;
  const end = () => {
    ended = true;
    clearInterval(renewal);
    clearTimeout(expiry);
  };
  const lose = (why: string) => {
    if (ended) return;
    end();
    lost.abort(new Fatal("lease_lost", `The lease of ${entry.session} is lost: ${why}`));
  };
  const watch = () => setTimeout(() => lose("it was not renewed in time"), Math.max(0, held.until - performance.now()));
  let expiry = watch();
  const renew = async () => {
    const next = await renewed(place, entry, held);
    // Also when it was released meanwhile: the release names the newest revision, or it would let go of nothing.
    held = next ?? held;
    if (ended) return;
    if (next === undefined) return lose("another one took it");
    clearTimeout(expiry);
    expiry = watch();
  };
  const renewal = setInterval(() => {
    // A renewal that failed is tried again at the next tick; the expiry ends the lease when none comes through in time.
    renewing = renewing.then(() => (ended ? undefined : renew())).catch(() => undefined);
  }, place.ttlMs / RENEWALS_PER_TTL);
  const release = async () => {
    if (ended) return;
    end();
    await renewing;
    await exclusive(() => leaveMarker(place, entry.session, held.revision));
  };
  return { session: entry.session, lost: lost.signal, release };
}

/**
 * The time is taken before the request, so the server's own clock for the entry starts later. A revision that is not
 * the known one can be this lease's own, when an acknowledgement was lost.
 */
async function renewed(place: Place, { session, text }: Entry, held: Held): Promise<Held | undefined> {
  const until = performance.now() + trusted(place);
  const revision = await exclusive(() => place.bucket.update(session, text, held.revision));
  if (revision !== undefined) return { revision, until };
  const current = await place.bucket.get(session);
  if (current?.string() !== text) return undefined;
  const again = await exclusive(() => place.bucket.update(session, text, current.revision));
  return again === undefined ? undefined : { revision: again, until };
}

function trusted(place: Place): number {
  return place.ttlMs * (1 - MARGIN);
}

/** Undefined when someone else was first. */
async function exclusive<T>(write: () => Promise<T>): Promise<T | undefined> {
  try {
    return await write();
  } catch (cause) {
    if (cause instanceof NatsError && WRONG_LAST_SEQUENCE.has(cause.api_error?.err_code ?? 0)) return undefined;
    throw new Retryable("leases_unreachable", "The lease could not be written", { cause, retryAfterMs: 500 });
  }
}
