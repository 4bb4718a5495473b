// Reading a part of a file or of an output: after a reconnect it goes on at its position.
import type { WireRequest } from "#schemas/wire/message.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { SandboxBreach } from "../breach.ts";
import { Incoming } from "../incoming.ts";
import type { Entry, Requests } from "../requests.ts";
import { refusalOf, replaced } from "./outcome.ts";

type Reading<A> = Readonly<{
  from: number;
  length: number;
  request: (stream: number, from: number, length: number) => WireRequest;
  parse: (answer: unknown) => A;
}>;

/** Bytes [from, from + length) of a file or an output; goes on at its position after a reconnect. */
export function read<A extends { from: number; length: number }>(
  requests: Requests,
  reading: Reading<A>,
): { info: Promise<A>; bytes: AsyncIterable<Uint8Array> } {
  const end = reading.from + reading.length;
  const incoming = new Incoming({ start: reading.from, endMax: end, mayJump: false });
  const info = Promise.withResolvers<A>();
  info.promise.catch(ignored);
  let expected: number | undefined;
  let asked = reading.from;
  const fail = (error: Error) => {
    info.reject(error);
    incoming.fail(error);
  };
  const entry = requests.start({
    incoming,
    request: (stream, before, now) => {
      asked = incoming.position;
      return replaced(before, now) ?? reading.request(stream, asked, end - asked);
    },
    answered: (answer) => {
      const parsed = reading.parse(answer);
      const ends = endOf(parsed, asked, end);
      if (expected !== undefined && ends !== expected) {
        fail(changed());
        return;
      }
      expected = ends;
      incoming.expectEnd(ends);
      info.resolve(parsed);
    },
    failed: (failure) => fail(refusalOf(failure)),
    lost: fail,
  });
  return { info: info.promise, bytes: bytesOf(requests, entry, incoming) };
}

function ignored(): void {
  // Whoever reads the bytes gets the same error there.
}

const changed = () =>
  new Retryable("changed_while_read", "What was read changed while the connection was away", {
    retryAfterMs: 1_000,
    next: "Read it again.",
  });

function endOf(answer: { from: number; length: number }, from: number, end: number): number {
  if (answer.from !== from && answer.length > 0) throw new SandboxBreach("Another part than asked for was announced");
  if (from + answer.length > end) throw new SandboxBreach("More than asked for was announced");
  return from + answer.length;
}

async function* bytesOf(requests: Requests, entry: Entry, incoming: Incoming): AsyncGenerator<Uint8Array> {
  try {
    for (let chunk = await incoming.take(); chunk !== undefined; chunk = await incoming.take()) yield chunk.bytes;
  } finally {
    requests.cancel(entry);
  }
}
