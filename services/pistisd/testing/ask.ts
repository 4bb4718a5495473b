import type { ExecResult, RequestOf } from "#schemas/wire/message.ts";
import type { PeerChannel, Received } from "./peer-channel.ts";
import type { TestSandbox } from "./sandbox.ts";

type Command = Partial<RequestOf<"exec">> & { command: string };

/** A whole exec request with the defaults of tests. */
export function execRequest(sandbox: TestSandbox, command: Command): RequestOf<"exec"> {
  return {
    op: "exec",
    callId: sandbox.newCallId(),
    timeoutMs: 30_000,
    background: false,
    excerpt: { headBytes: 8_192, tailBytes: 8_192 },
    ...command,
  };
}

export type Ran = ExecResult & { text: string };

/** Runs a command as the real peers do: a daemon that was starved of time connects anew, and is asked about it again. */
export async function run(sandbox: TestSandbox, channel: PeerChannel, command: Command | string): Promise<Ran> {
  const request = execRequest(sandbox, typeof command === "string" ? { command } : command);
  let result = await channel.askUnlessLost(request);
  while (result === undefined) result = await askAgain(sandbox, request);
  return { ...result, text: textOf(result) };
}

/** Undefined when the connection was lost once more. */
async function askAgain(sandbox: TestSandbox, request: RequestOf<"exec">): Promise<ExecResult | undefined> {
  const channel = sandbox.relay.openChannel();
  const { callId, excerpt } = request;
  if ((await channel.askUnlessLost({ op: "hello", protocol: 1, role: "brain", epoch: 1 })) === undefined) return;
  const attached = await channel.askUnlessLost({ op: "attach", callId, from: 0, excerpt });
  if (attached?.state === "lost") throw new Error(`${callId} was lost: ${sandbox.log}`);
  if (attached?.state === "never-seen") return channel.askUnlessLost({ ...request, callId: sandbox.newCallId() });
  return attached?.result;
}

export function textOf(result: ExecResult): string {
  return Buffer.concat([Buffer.from(result.head, "base64"), Buffer.from(result.tail, "base64")]).toString("latin1");
}

export async function readOutput(
  channel: PeerChannel,
  callId: string,
  from: number,
  length: number,
): Promise<Received> {
  const { stream, received } = channel.stream();
  await channel.ask({ op: "outputRead", callId, from, length, stream });
  await received.ended.promise;
  return received;
}
