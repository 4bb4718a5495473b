// The egress service asks the scheduler what a sandbox may reach, over EDGE. Only the scheduler may listen to these
// questions, and only it may answer into the egress service's inbox.
import { ErrorCode, type Msg, type NatsConnection, NatsError } from "nats";
import { NETWORK_QUESTIONS_SUBJECT } from "#schemas/ledger/subjects.ts";
import { type NetworkAnswer, type NetworkQuestion, networkAnswer, networkQuestion } from "#schemas/network/question.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { failureOf, Retryable } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";

const ANSWER_MS_MAX = 3_000;
const OPEN_MAX = 1_000;
/** A question that wants its answer elsewhere, in a work queue for one, gets none. */
const ANSWERS = "_INBOX_egress.";

/** What a sandbox may reach; undefined for one that nobody knows. Throws a Retryable `network_unknown_yet`. */
export type AskNetwork = (question: NetworkQuestion) => Promise<SandboxNetwork | undefined>;

/** For the egress service (`egress`). */
export function openNetworkAsker({ nats }: { nats: NatsConnection }): AskNetwork {
  return async (question) => {
    const payload = JSON.stringify(networkQuestion.parse(question));
    const reply = await nats
      .request(NETWORK_QUESTIONS_SUBJECT, payload, { timeout: ANSWER_MS_MAX })
      .catch((cause: unknown) => {
        throw unanswered(cause instanceof NatsError ? cause.code : ErrorCode.Unknown, cause);
      });
    const answer = networkAnswer.parse(reply.json());
    if (answer.status === "failed") throw unanswered(answer.code);
    return answer.status === "known" ? answer.network : undefined;
  };
}

function unanswered(reason: string, cause?: unknown): Retryable {
  return new Retryable("network_unknown_yet", `The scheduler does not say what the sandbox may reach (${reason})`, {
    cause,
    retryAfterMs: 1_000,
    next: "See that the scheduler runs.",
  });
}

/** For the scheduler (`edge-scheduler`). Several share the questions. */
export function answerNetworkQuestions(options: { nats: NatsConnection; answer: AskNetwork; log: Log }): {
  close: () => Promise<void>;
} {
  const open = new Set<Promise<void>>();
  const subscription = options.nats.subscribe(NETWORK_QUESTIONS_SUBJECT, {
    queue: "scheduler",
    callback: (error, message) => {
      if (error !== null || message.reply?.startsWith(ANSWERS) !== true) return;
      // Whoever asks beyond this hears nothing and asks again.
      if (open.size >= OPEN_MAX) return;
      const answering: Promise<void> = answerOne(options, message).finally(() => open.delete(answering));
      open.add(answering);
    },
  });
  return {
    close: async () => {
      subscription.unsubscribe();
      await Promise.all(open);
    },
  };
}

async function answerOne({ answer, log }: { answer: AskNetwork; log: Log }, message: Msg): Promise<void> {
  const reply = (value: NetworkAnswer) => message.respond(JSON.stringify(value));
  try {
    const network = await answer(networkQuestion.parse(message.json()));
    reply(network === undefined ? { status: "unknown" } : { status: "known", network });
  } catch (error) {
    log.warn({ failure: failureOf(error) }, "A question about a sandbox's network was not answered");
    reply({ status: "failed", code: failureOf(error).code });
  }
}
