// One sandbox, as the brain and the publisher see it: requests go through the relay to pistisd.
// A dropped socket or a restarted relay is mended inside: the link reconnects and re-attaches to running
// commands at their position. What cannot be mended within `reattachMs` throws SandboxLost.
import type { AnswerOf, AttachResult, ExecResult, RequestOf } from "#schemas/wire/message.ts";

/** Nobody can say how the request ended: the sandbox did not answer in time or pistisd was restarted. */
export class SandboxLost extends Error {
  override readonly name = "SandboxLost";
  readonly code: "unreachable" | "restarted";
  constructor(code: "unreachable" | "restarted", message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** pistisd never saw the call and, being asked, has barred it: it did not run and never will. */
export class CallNotRun extends Error {
  override readonly name = "CallNotRun";
}

export type OutputChunk = Readonly<{ position: number; bytes: Uint8Array }>;

export type ExecOptions = Readonly<{
  /** Gets the output as it comes. Its promise is the back-pressure of the stream; the command itself is not slowed. */
  onOutput?: (chunk: OutputChunk) => void | Promise<void>;
}>;

export type AttachOptions = ExecOptions &
  Readonly<{
    /** How long the end of the call is waited for, over any number of connections; for ever when absent. */
    withinMs?: number;
  }>;

type Plain<O extends "exec" | "attach"> = Omit<RequestOf<O>, "op" | "stream">;

export interface SandboxLink {
  readonly sandboxId: string;
  /**
   * Resolves when pistisd is connected and accepted this peer's epoch. Throws SandboxLost after `withinMs`; Refusal `epoch_stale`,
   * or with pistisd's code when it does not take this peer for another reason.
   */
  ready(withinMs: number): Promise<{ bootId: string }>;
  /** Goes on under a newer epoch, on the same connection. Resolves when pistisd accepted it; throws SandboxLost; Refusal `epoch_stale`. */
  raiseEpoch(epoch: number): Promise<void>;

  /** Resolves when the command ended (or is in the background). Throws SandboxLost, CallNotRun, or Refusal with pistisd's code. */
  exec(request: Plain<"exec">, options?: ExecOptions): Promise<ExecResult>;
  /** Asks about a call of an earlier brain, waits for its end if it runs. Never runs anything. Throws SandboxLost after `withinMs`. */
  attach(request: Plain<"attach">, options?: AttachOptions): Promise<AttachResult>;
  stop(callId: string, graceMs: number): Promise<AnswerOf<"stop">>;
  processes(): Promise<AnswerOf<"processes">>;
  signal(request: Omit<RequestOf<"signal">, "op">): Promise<AnswerOf<"signal">>;

  /** Bytes [from, from + length) of a call's whole output, in order, with back-pressure. */
  readOutput(callId: string, from: number, length: number): AsyncIterable<Uint8Array>;
  /** `info` resolves first; then the bytes come. */
  readFile(
    path: string,
    from: number,
    length: number,
  ): { info: Promise<AnswerOf<"fileRead">>; bytes: AsyncIterable<Uint8Array> };
  writeFile(
    request: Omit<RequestOf<"fileWrite">, "op" | "stream">,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<AnswerOf<"fileWrite">>;
  editFile(request: Omit<RequestOf<"fileEdit">, "op">): Promise<AnswerOf<"fileEdit">>;
  listFiles(request: Omit<RequestOf<"fileList">, "op">): Promise<AnswerOf<"fileList">>;
  searchFiles(request: Omit<RequestOf<"fileSearch">, "op">): Promise<AnswerOf<"fileSearch">>;

  /** What the sandbox says of its own network; it may lie. `timeoutMs` is that of each attempt. */
  probe(request: Omit<RequestOf<"probe">, "op">): Promise<AnswerOf<"probe">>;

  close(): Promise<void>;
}

export type OpenLink = (request: {
  sandboxId: string;
  role: "brain" | "service";
  epoch?: number;
  /** Commands and changes are for this start of pistisd alone: another one is sent none (CallNotRun). Questions are for any. */
  bootId?: string;
}) => SandboxLink;
