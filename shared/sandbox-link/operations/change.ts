// Writing and editing files: like commands they have a call id, are sent once and only asked about after that.
import { type AttachResult, answers, type RequestOf, type WireRequest } from "#schemas/wire/message.ts";
import { SandboxBreach } from "../breach.ts";
import { CallNotRun, SandboxLost } from "../link.ts";
import { type Content, Outgoing, type Send } from "../outgoing.ts";
import type { Operation, Requests } from "../requests.ts";
import { lostCall, refusalOf, replaced } from "./outcome.ts";

type Change<A> = Readonly<{
  callId: string;
  first: (stream: number) => WireRequest;
  parse: (answer: unknown) => A;
  sending?: Pick<Operation, "outgoing" | "begin">;
}>;

/** `answer` is not there when only `attach` could tell that the change was made. */
type Changed<A> = { answer: A | undefined };

export async function writeFile(
  requests: Requests,
  request: Omit<RequestOf<"fileWrite">, "op" | "stream">,
  content: Content,
): Promise<{ size: number; created: boolean }> {
  const outgoing = new Outgoing(content, request.size);
  let sending: Promise<void> = Promise.resolve();
  const begin = (stream: Outgoing, send: Send) => {
    sending = stream.run(send);
    sending.catch(awaitedBelow);
  };
  const changing = change(requests, {
    callId: request.callId,
    first: (stream) => ({ op: "fileWrite", ...request, stream }),
    parse: (answer) => answers.fileWrite.parse(answer),
    sending: { outgoing, begin },
  });
  const changed = await changing.catch(async (error: unknown) => {
    // What is wrong with the content is the reason behind whatever pistisd says of it.
    await sending;
    throw error;
  });
  await sending;
  return changed.answer ?? { size: request.size, created: false };
}

function awaitedBelow(): void {
  // The content may fail long before pistisd answers.
}

export async function editFile(
  requests: Requests,
  request: Omit<RequestOf<"fileEdit">, "op">,
): Promise<{ replacements: number; size: number } | undefined> {
  const { answer } = await change(requests, {
    callId: request.callId,
    first: () => ({ op: "fileEdit", ...request }),
    parse: (given) => answers.fileEdit.parse(given),
  });
  return answer;
}

function change<A>(requests: Requests, { callId, first, parse, sending }: Change<A>): Promise<Changed<A>> {
  const done = Promise.withResolvers<Changed<A>>();
  let isFirst = true;
  requests.start({
    ...sending,
    hasEffect: true,
    request: (stream, before, now) => {
      isFirst = before === undefined;
      if (isFirst) return first(stream);
      return replaced(before, now) ?? { op: "attach", callId, excerpt: { headBytes: 0, tailBytes: 0 }, from: 0 };
    },
    answered: (answer) => {
      if (isFirst) {
        done.resolve({ answer: parse(answer) });
        return;
      }
      const error = errorOf(answers.attach.parse(answer));
      if (error === undefined) done.resolve({ answer: undefined });
      else done.reject(error);
    },
    failed: (failure) => done.reject(refusalOf(failure)),
    lost: (error, sent) => done.reject(lostCall(error, sent)),
  });
  return done.promise;
}

/** What a change's record says: exited with 0 is done, failed is not. */
function errorOf(attached: AttachResult): Error | undefined {
  if (attached.state === "lost")
    return new SandboxLost("restarted", "pistisd was restarted while the file was changed");
  if (attached.state === "never-seen") return new CallNotRun("pistisd never saw the call and has barred it");
  const { outcome } = attached.result;
  if (outcome.status === "exited" && outcome.exitCode === 0) return undefined;
  if (outcome.status === "failed") return notMade(outcome.failure);
  throw new SandboxBreach(`A change of a file ended as ${outcome.status}`);
}

/** A file is replaced whole or not at all, so a change whose stream was cut off did not happen. */
function notMade({ code, message, next }: { code: string; message: string; next?: string | undefined }): Error {
  if (code === "internal") return new CallNotRun(`The connection ended before the change was complete: ${message}`);
  return refusalOf({ code, message, next });
}
