// The hash chain of the ledger: each message of a session carries the SHA-256 of the one before it. What was lost,
// moved or changed afterwards breaks the chain at that place.
import { sha256 } from "#shared/ids/ids.ts";
import { type LedgerMessage, NEW_SESSION, type Version } from "./ledger.ts";

export type ChainBreak = Readonly<{ sequence: number; id: string; session: string; reason: string }>;

/** The first message that breaks its session's chain; messages of several sessions may be mixed, each from its start. */
export async function verifyChain(
  messages: Iterable<LedgerMessage> | AsyncIterable<LedgerMessage>,
): Promise<ChainBreak | undefined> {
  const versions = new Map<string, Version>();
  for await (const message of messages) {
    const broken = breakAfter(versions.get(message.session) ?? NEW_SESSION, message);
    if (broken !== undefined) return broken;
    versions.set(message.session, message);
  }
  return undefined;
}

/** What is wrong with `message` as the next one of its session after `version`; undefined when nothing is. */
export function breakAfter(version: Version, message: LedgerMessage): ChainBreak | undefined {
  const reason = reasonAfter(version, message);
  if (reason === undefined) return undefined;
  return { sequence: message.sequence, id: message.id, session: message.session, reason };
}

function reasonAfter(version: Version, message: LedgerMessage): string | undefined {
  if (sha256(message.bytes) !== message.hash) return "Its bytes do not have the hash that it was read with";
  if (message.sequence <= version.sequence) return `It does not come after message ${version.sequence}`;
  if (message.prev === version.hash) return undefined;
  if (version.hash === "") return "It follows a message that is not there: the session's start is missing";
  return `It does not follow message ${version.sequence}: one of the two was changed, or one between them is missing`;
}
