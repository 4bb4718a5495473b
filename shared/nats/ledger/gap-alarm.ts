// A break of a session's hash chain, as a consumer meets it. Either a message was left out on its way, or went to
// another replica: then the stream has it. Or the store itself has lost or changed it, and a person has to know.
import { sha256 } from "#shared/ids/ids.ts";
import type { ChainWatch, Gap, Link } from "#shared/ledger/chain-watch.ts";
import type { FeedContext } from "./jetstream-feed.ts";
import { type Found, nextMessage } from "./stream-reader.ts";

const REREAD_MAX = 1_000;

export type Consumer = Readonly<{ consumer: string; subject: string; watch: ChainWatch }>;

/** The messages that the stream has between the last seen one and this one. Logs `ledger_gap` when the store is broken. */
export async function rereadGap(context: FeedContext, consumer: Consumer, gap: Gap, link: Link): Promise<Found[]> {
  const between: Found[] = [];
  for (let last = gap.after; between.length < REREAD_MAX; ) {
    const found = await nextMessage(context.nats, last + 1, consumer.subject);
    if (found === undefined || found.sequence >= gap.sequence) break;
    between.push(found);
    last = found.sequence;
  }
  const before = between.at(-1);
  if (before === undefined || sha256(before.bytes) !== link.prev) alarm(context, consumer, gap);
  return between;
}

function alarm({ log }: FeedContext, { consumer, watch }: Consumer, gap: Gap): void {
  const fields = { code: "ledger_gap", consumer, ...gap, gaps: watch.count() };
  log.error(fields, "A ledger message does not follow on the one before it: run `pistis ledger verify`");
}
