import { WireCode } from "#schemas/wire/message.ts";
import { PROBE_FINDINGS_MAX, type ProbeAnswer } from "#schemas/wire/probe.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Operation } from "../channel/operation.ts";
import { type JobContext, runJob } from "../jobs/run-job.ts";
import { probeOutput } from "./job.ts";
import { type RelayAccess, type RelayEndpoint, tryRelayEndpoint } from "./relay-endpoints.ts";

export type ProbeContext = JobContext &
  Readonly<{
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
      runJob(context, {
        name: "probe",
        argument: JSON.stringify({ targets: others, timeoutMs: request.timeoutMs }),
        cwd: context.root,
        environment: context.environment,
        timeoutMs: request.timeoutMs + GRACE_MS,
        outputBytesMax: OUTPUT_BYTES_MAX,
        signal: channel.signal,
      }),
      Promise.all(
        endpoints.map((endpoint: { index: number; target: RelayEndpoint }) =>
          tryRelayEndpoint(context.relay, endpoint),
        ),
      ),
    ]);
    return { findings: [...relay, ...answerIn(tried).findings].slice(0, PROBE_FINDINGS_MAX) };
  };
}

function answerIn(output: string | undefined): ProbeAnswer {
  if (output === undefined) throw new Refusal(WireCode.timedOut, "The probe did not end in its time");
  const result = probeOutput.parse(JSON.parse(output));
  if ("failure" in result) throw new Refusal(result.failure.code, result.failure.message);
  return result;
}
