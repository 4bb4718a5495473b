// Proves the two copies of the ledger: each session's hash chain from its first message to its last, in the stream and
// in the mirror, and that both hold the same. It reads both in the order of the stream, once.
import type { Blobs } from "#shared/blobs/blobs.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { type MessageHead, readHead, type StoredMessage } from "./codec.ts";
import { NEW_SESSION, type Version } from "./ledger.ts";
import { isLost } from "./lost.ts";
import type { MirroredMessage } from "./mirror.ts";

export type FaultCode =
  /** It does not follow on the session's message before it: that one, or one in between, was lost or changed. */
  | "chain_broken"
  /** It is no ledger message, or what it keeps in a blob is gone. */
  | "message_unreadable"
  /** Its session belongs to another subject. */
  | "wrong_subject"
  /** The mirror has it and the ledger has not. */
  | "missing_in_ledger"
  /** The ledger has it and the mirror, which has come further, has not: the projector parked it, or the row was lost. */
  | "missing_in_mirror"
  /** Both have a message at this place, and not the same. */
  | "copies_differ"
  /** No copy has a message at this place of the stream. */
  | "missing_in_both";

export type Fault = Readonly<{ session: string; sequence: number; code: FaultCode; reason: string }>;

export type Verification = Readonly<{
  messages: number;
  mirrored: number;
  sessions: number;
  /** Messages that the mirror has not come to yet: no fault. */
  notYetMirrored: number;
  /** Places that an earlier repair had to leave without their message. */
  lost: readonly number[];
  /** The first bad message of each session that has one, at most FAULTS_MAX. */
  faults: readonly Fault[];
  faultySessions: number;
}>;

export type StreamMessage = StoredMessage & Readonly<{ subject: string; messageId: string }>;

export type Copies = Readonly<{
  stream: AsyncIterable<StreamMessage>;
  mirror: AsyncIterable<MirroredMessage>;
  /** The stream's last sequence now. */
  lastInStream: () => Promise<number>;
  /** How far the mirror must be, for the message's session. */
  markOf: (session: string) => number;
  subjectOf: (session: string) => string;
  blobs: Blobs;
  /** Why the projector gave a message up, if it did. */
  parked: (sequence: number) => string | undefined;
  /** The copies hold one session only, so places between its messages are others'. */
  oneSession: boolean;
  onProgress: (sequence: number) => void;
}>;

const FAULTS_MAX = 1_000;
const PROGRESS_EVERY = 1_000;
/** Nobody knows whose message it was. */
const NO_SESSION = "";

type Run = {
  copies: Copies;
  versions: Map<string, Version>;
  faults: Map<string, Fault>;
  counts: { messages: number; mirrored: number; notYetMirrored: number };
  lost: number[];
  /** Of the last place. */
  sequence: number;
};

type Place = Readonly<{
  sequence: number;
  message: StreamMessage | undefined;
  row: MirroredMessage | undefined;
  streamEnded: boolean;
}>;

export async function verifyCopies(copies: Copies): Promise<Verification> {
  const counts = { messages: 0, mirrored: 0, notYetMirrored: 0 };
  const run: Run = { copies, versions: new Map(), faults: new Map(), counts, lost: [], sequence: 0 };
  let seen = 0;
  for await (const place of places(copies)) {
    // The mirror may have gone on while the stream was read to its end; what it has, the stream had before.
    if (place.streamEnded && place.sequence <= (await copies.lastInStream())) break;
    await checkPlace(run, place);
    if (++seen % PROGRESS_EVERY === 0) copies.onProgress(place.sequence);
  }
  const { faults, versions, lost } = run;
  const first = [...faults.values()].slice(0, FAULTS_MAX);
  return { ...counts, lost, sessions: versions.size, faults: first, faultySessions: faults.size };
}

/** Both copies, place by place. */
async function* places({ stream, mirror }: Copies): AsyncGenerator<Place> {
  const messages = stream[Symbol.asyncIterator]();
  const rows = mirror[Symbol.asyncIterator]();
  try {
    let [message, row] = [await nextOf(messages), await nextOf(rows)];
    while (message !== undefined || row !== undefined) {
      const sequence = Math.min(
        message?.sequence ?? Number.POSITIVE_INFINITY,
        row?.sequence ?? Number.POSITIVE_INFINITY,
      );
      const place = {
        sequence,
        message: message?.sequence === sequence ? message : undefined,
        row: row?.sequence === sequence ? row : undefined,
        streamEnded: message === undefined,
      };
      yield place;
      if (place.message !== undefined) message = await nextOf(messages);
      if (place.row !== undefined) row = await nextOf(rows);
    }
  } finally {
    await Promise.all([messages.return?.(), rows.return?.()]);
  }
}

async function nextOf<T>(iterator: AsyncIterator<T>): Promise<T | undefined> {
  const { done, value } = await iterator.next();
  return done === true ? undefined : value;
}

async function checkPlace(run: Run, place: Place): Promise<void> {
  const { message, row, sequence } = place;
  if (!run.copies.oneSession && sequence > run.sequence + 1) noteHole(run, sequence);
  run.sequence = sequence;
  if (message !== undefined && isLost(message.subject)) return void run.lost.push(sequence);
  if (message !== undefined) run.counts.messages++;
  if (row !== undefined) run.counts.mirrored++;
  const stored = message ?? row;
  if (stored === undefined) return;
  const head = await headOf(run, stored, message?.subject.split(".")[2] ?? row?.session ?? NO_SESSION);
  if (head === undefined) return;
  const version = run.versions.get(head.session) ?? NEW_SESSION;
  run.versions.set(head.session, { sequence, hash: head.hash });
  if (message !== undefined && row !== undefined && row.session !== head.session) {
    const reason = `The ledger holds a message of ${head.session} at its place`;
    note(run, { session: row.session, sequence, code: "missing_in_ledger", reason });
  }
  const fault = chainFault(version, head) ?? subjectFault(run, message, row, head) ?? copiesFault(run, place, head);
  if (fault !== undefined) note(run, { session: head.session, sequence, ...fault });
}

/** Undefined for what cannot be read, which is noted. Its hash still counts: the session's next message has it. */
async function headOf(run: Run, stored: StoredMessage, session: string): Promise<MessageHead | undefined> {
  try {
    return await readHead(stored, run.copies.blobs);
  } catch (error) {
    const { sequence } = stored;
    note(run, { session, sequence, code: "message_unreadable", reason: failureOf(error).message });
    run.versions.set(session, { sequence, hash: sha256(stored.bytes) });
    return undefined;
  }
}

type Found = Pick<Fault, "code" | "reason">;

function chainFault(version: Version, { prev }: MessageHead): Found | undefined {
  if (prev === version.hash) return undefined;
  const reason =
    version.sequence === 0
      ? "It follows a message that is not there: the session's start is missing"
      : `It does not follow message ${version.sequence}: one of the two was changed, or one between them is missing`;
  return { code: "chain_broken", reason };
}

function subjectFault(
  { copies }: Run,
  message: StreamMessage | undefined,
  row: MirroredMessage | undefined,
  { session, id }: MessageHead,
): Found | undefined {
  const code = "wrong_subject";
  if (message !== undefined && message.subject !== copies.subjectOf(session))
    return { code, reason: `The ledger has it under ${message.subject}, its session is ${session}` };
  if (message !== undefined && message.messageId !== id)
    return { code, reason: `The ledger has it under the id ${message.messageId}, its own is ${id}` };
  if (message === undefined && row !== undefined && row.session !== session)
    return { code, reason: `The mirror has it under ${row.session}, its session is ${session}` };
  return undefined;
}

function copiesFault({ copies, counts }: Run, { sequence, message, row }: Place, head: MessageHead): Found | undefined {
  if (message === undefined) return { code: "missing_in_ledger", reason: "Only the mirror has it" };
  if (row !== undefined) {
    if (Buffer.compare(message.bytes, row.bytes) === 0) return undefined;
    return { code: "copies_differ", reason: "The ledger and the mirror hold different messages at this place" };
  }
  if (sequence > copies.markOf(head.session)) {
    counts.notYetMirrored++;
    return undefined;
  }
  const parked = copies.parked(sequence);
  const reason =
    parked === undefined ? "The mirror, which has come further, has lost it" : `The projector parked it: ${parked}`;
  return { code: "missing_in_mirror", reason };
}

function noteHole(run: Run, sequence: number): void {
  const [from, to] = [run.sequence + 1, sequence - 1];
  const reason = from === to ? "It is in no copy" : `Messages ${from} to ${to} are in no copy`;
  note(run, { session: NO_SESSION, sequence: from, code: "missing_in_both", reason });
}

function note({ faults }: Run, fault: Fault): void {
  if (!faults.has(fault.session)) faults.set(fault.session, fault);
}
