import type { RequestOf } from "#schemas/wire/message.ts";
import { PROBE_FINDINGS_MAX, type ProbeAnswer } from "#schemas/wire/probe.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Operation, RequestContext } from "../channel/operation.ts";
import { CALL_MARK } from "../commands/environment.ts";
import { sendSignal } from "../commands/processes.ts";
import type { System } from "../native/system.ts";
import { probeOutput } from "./job.ts";
import { type RelayAccess, type RelayEndpoint, tryRelayEndpoint } from "./relay-endpoints.ts";

export type ProbeContext = Readonly<{
  system: System;
  self: readonly string[];
  root: string;
  /** What commands get: the probe is to see what they see. */
  environment: Readonly<Record<string, string>>;
  relay: RelayAccess;
}>;

const OUTPUT_BYTES_MAX = 1024 * 1024;
/** Beyond the attempts' own time: to start and to print. */
const GRACE_MS = 5_000;

export function probe(context: ProbeContext): Operation<"probe"> {
  return async (request, channel) => {
    const targets = request.targets.map((target, index) => ({ index, target }));
    const endpoints = targets.flatMap(({ index, target }) => (target.kind === "relay" ? [{ index, target }] : []));
    const others = targets.filter(({ target }) => target.kind !== "relay");
    const [tried, relay] = await Promise.all([
      runInChild(context, JSON.stringify({ targets: others, timeoutMs: request.timeoutMs }), {
        timeoutMs: request.timeoutMs + GRACE_MS,
        signal: channel.signal,
      }),
      Promise.all(
        endpoints.map((endpoint: { index: number; target: RelayEndpoint }) =>
          tryRelayEndpoint(context.relay, endpoint),
        ),
      ),
    ]);
    return { findings: [...relay, ...tried.findings].slice(0, PROBE_FINDINGS_MAX) };
  };
}

type Limits = Readonly<{ timeoutMs: RequestOf<"probe">["timeoutMs"]; signal: RequestContext["signal"] }>;

async function runInChild(context: ProbeContext, job: string, { timeoutMs, signal }: Limits): Promise<ProbeAnswer> {
  const ended = Promise.withResolvers<void>();
  const parts: Uint8Array[] = [];
  let size = 0;
  const spawned = context.system.spawn({
    arguments: [...context.self, "probe", job],
    cwd: context.root,
    environment: { ...context.environment, [CALL_MARK]: "probe" },
    onExit: () => ended.resolve(),
    onOutput: (bytes) => {
      size += bytes.byteLength;
      if (size <= OUTPUT_BYTES_MAX) parts.push(bytes.slice());
    },
    onOutputEnd: () => undefined,
  });
  const kill = () => sendSignal(spawned.pid, "SIGKILL");
  const timer = setTimeout(kill, timeoutMs);
  signal.addEventListener("abort", kill);
  await ended.promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", kill);
  spawned.readNow();
  spawned.closeOutput();
  if (signal.aborted) throw new Refusal("cancelled", "The probe was withdrawn");
  return answerIn(Buffer.concat(parts).toString("utf8"));
}

function answerIn(output: string): ProbeAnswer {
  if (output === "") throw new Refusal("probe_failed", "The probe ended without a result: the sandbox may lack memory");
  const result = probeOutput.parse(JSON.parse(output));
  if ("failure" in result) throw new Refusal(result.failure.code, result.failure.message);
  return result;
}
