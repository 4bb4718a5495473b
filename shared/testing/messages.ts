// Small messages for tests of the ledger and of what reads it.
import { expect } from "chai";
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { type Cause, type Ledger, type LedgerMessage, NEW_SESSION } from "#shared/ledger/ledger.ts";

export function posted(text: string): EventOf<"MessagePosted"> {
  return { type: "MessagePosted", data: { messageId: newId("message"), text, delivery: "queue" } };
}

export function causeOf(session: string): Cause {
  return { correlationId: session, causationId: null };
}

export function versionOf({ sequence, hash }: { sequence: number; hash: string }) {
  return { sequence, hash };
}

export async function appendMany(ledger: Ledger, session: string, count: number, from = NEW_SESSION) {
  const appended: LedgerMessage[] = [];
  let version = from;
  for (let index = 0; index < count; index++) {
    const message = await ledger.append(session, version, [posted(`${index}`)], causeOf(session));
    version = versionOf(message);
    appended.push(message);
  }
  return appended;
}

/** The first `count` messages, or those until the feed ends. */
export async function take(count: number, feed: AsyncIterable<LedgerMessage>): Promise<LedgerMessage[]> {
  const taken: LedgerMessage[] = [];
  for await (const message of feed) {
    if (taken.push(message) === count) break;
  }
  return taken;
}

export async function expectFatal(code: string, act: () => Promise<unknown>): Promise<void> {
  expect(await failureFrom(act))
    .to.be.instanceOf(Fatal)
    .with.property("code", code);
}

export function missing(): PistisEvent {
  return { type: "SandboxMissing", data: { sandboxId: newId("sandbox"), generation: 1 } };
}

export function textsOf(messages: readonly LedgerMessage[]): string[] {
  return messages.flatMap(({ events }) => events.flatMap((event) => ("text" in event.data ? [event.data.text] : [])));
}

export function lastOf<T>(list: readonly (T | undefined)[]): T {
  const last = list.at(-1);
  if (last === undefined) throw new Error("The list is empty");
  return last;
}

export async function failureFrom(act: () => Promise<unknown>): Promise<unknown> {
  try {
    await act();
    return undefined;
  } catch (error) {
    return error;
  }
}
