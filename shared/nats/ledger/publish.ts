// One append on the wire: a request whose reply is JetStream's acknowledgement. Written by hand because it decides
// what each failure means: the outcome of a request without an answer is unknown until the same message,
// sent again under the same id, is either stored or found to be there.
import { setTimeout as delay } from "node:timers/promises";
import { ErrorCode, headers, type NatsConnection, NatsError } from "nats";
import { z } from "zod";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { type EncodedMessage, eventTypes } from "#shared/ledger/codec.ts";
import { VersionConflict } from "#shared/ledger/ledger.ts";
import type { LossGuard } from "./loss-guard.ts";
import { nextMessage, unavailable } from "./stream-reader.ts";

const ACK_MS = 2_000;
const RETRY_MS = 200;

const WRONG_LAST_SEQUENCE = new Set([10_071, 10_164]);
/** The first copy of a message is still on its way through the cluster. */
const DUPLICATE_IN_PROGRESS = 10_158;

const acknowledgement = z.union([
  z.object({ stream: z.string(), seq: z.number().int().positive(), error: z.undefined().optional() }),
  z.object({
    error: z.object({ code: z.number(), err_code: z.number().optional(), description: z.string().optional() }),
  }),
]);
type Acknowledgement = z.output<typeof acknowledgement>;

export type Publication = Readonly<{ subject: string; expectedSequence: number; message: EncodedMessage }>;

/**
 * The stream sequence of the stored message. Sends it again for as long as `patienceMs`. Throws VersionConflict; a
 * Retryable `ledger_unavailable`, after which the message may or may not be stored (read before deciding again); a Fatal
 * `ledger_refused`; what the guard throws.
 */
export async function publish(
  nats: NatsConnection,
  publication: Publication,
  { patienceMs, lossGuard }: Readonly<{ patienceMs: number; lossGuard?: LossGuard | undefined }>,
): Promise<number> {
  const { message } = publication;
  const options = { headers: headersOf(publication), timeout: ACK_MS };
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const isLast = () => performance.now() + ACK_MS > deadline;
    await lossGuard?.mayAppend(deadline - performance.now());
    const answer = await send(nats, publication.subject, message.bytes, options);
    if (answer instanceof NatsError) {
      if (isLast()) throw unavailable(`No answer to the append of ${message.id}: ${answer.message}`, answer);
      if (answer.code !== ErrorCode.Timeout) await delay(RETRY_MS);
      continue;
    }
    if (answer.error === undefined) return answer.seq;
    const sequence = await afterRefusal(nats, publication, answer.error);
    if (sequence !== undefined) return sequence;
    if (isLast()) throw unavailable(`The append of ${message.id} was not taken`);
    await delay(RETRY_MS);
  }
}

function headersOf({ expectedSequence, message }: Publication) {
  const list = headers();
  list.set("Nats-Msg-Id", message.id);
  list.set("Nats-Expected-Stream", LEDGER_STREAM);
  list.set("Nats-Expected-Last-Subject-Sequence", `${expectedSequence}`);
  list.set("Pistis-Types", eventTypes(message));
  return list;
}

async function send(
  nats: NatsConnection,
  subject: string,
  bytes: Uint8Array,
  options: { headers: ReturnType<typeof headers>; timeout: number },
): Promise<Acknowledgement | NatsError> {
  try {
    const reply = await nats.request(subject, bytes, options);
    return acknowledgement.parse(reply.json());
  } catch (error) {
    if (!(error instanceof NatsError)) throw error;
    if (error.isPermissionError()) {
      const next = "This service's NATS user may not write there: run set-up again, or look at who asked for it.";
      throw new Fatal("ledger_refused", `The server does not let this service publish to ${subject}`, {
        cause: error,
        next,
      });
    }
    if (nats.isClosed()) throw unavailable("The connection to NATS is closed", error);
    return error;
  }
}

/** The sequence when the message is stored after all, undefined when it may be sent again. */
async function afterRefusal(
  nats: NatsConnection,
  { subject, expectedSequence, message }: Publication,
  error: { code: number; err_code?: number | undefined; description?: string | undefined },
): Promise<number | undefined> {
  const text = error.description ?? `error ${error.code}`;
  if (error.err_code !== undefined && WRONG_LAST_SEQUENCE.has(error.err_code)) {
    // If ours is stored, it is the first after the expected one, whatever others have written since.
    const first = await nextMessage(nats, expectedSequence + 1, subject);
    if (first?.messageId === message.id) return first.sequence;
    throw new VersionConflict(`${message.session} is no longer at ${expectedSequence}`);
  }
  if (error.err_code === DUPLICATE_IN_PROGRESS || error.code >= 500) return undefined;
  throw new Fatal("ledger_refused", `The server refused ledger message ${message.id}: ${text}`);
}
