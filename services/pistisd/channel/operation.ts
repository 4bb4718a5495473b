// What a request needs from the channel on which it came.
import type { AnswerOf, Op, RequestOf } from "#schemas/wire/message.ts";
import type { StreamReceiver } from "./receiver.ts";
import type { StreamSender } from "./sender.ts";

export type RequestContext = Readonly<{
  /** Fires when the request is withdrawn or its channel is gone. */
  signal: AbortSignal;
  /** Throws Refusal when a newer brain took over; looked at again right before an effect. */
  checkEpoch: () => void;
  sender: (stream: number) => StreamSender;
  /** To be called before the first await: the stream's bytes come right after the request. */
  receiver: (stream: number) => StreamReceiver;
  /** Work that follows the answer, such as the bytes that it announces. */
  afterAnswer: (work: () => Promise<void>) => void;
}>;

export type Operation<O extends Op> = (request: RequestOf<O>, context: RequestContext) => Promise<AnswerOf<O>>;

/** Everything but `hello`, which the channel itself answers. */
export type Operations = Readonly<{ [O in Exclude<Op, "hello">]: Operation<O> }>;

type AnyRequest = { [O in Exclude<Op, "hello">]: RequestOf<O> }[Exclude<Op, "hello">];

export function perform(operations: Operations, request: AnyRequest, context: RequestContext): Promise<unknown> {
  switch (request.op) {
    case "exec":
      return operations.exec(request, context);
    case "attach":
      return operations.attach(request, context);
    case "stop":
      return operations.stop(request, context);
    case "processes":
      return operations.processes(request, context);
    case "signal":
      return operations.signal(request, context);
    case "outputRead":
      return operations.outputRead(request, context);
    case "fileRead":
      return operations.fileRead(request, context);
    case "fileWrite":
      return operations.fileWrite(request, context);
    case "fileEdit":
      return operations.fileEdit(request, context);
    case "fileList":
      return operations.fileList(request, context);
    case "fileSearch":
      return operations.fileSearch(request, context);
    case "probe":
      return operations.probe(request, context);
  }
}
