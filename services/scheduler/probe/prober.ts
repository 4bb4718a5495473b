// Has a sandbox that joined try how closed its network is, and stores what came of it. Probing again is harmless, so a
// death anywhere here only means that the task comes again.
import type { EgressFinding } from "#schemas/network/egress-finding.ts";
import type { ProbeSettings } from "#schemas/network/probe-settings.ts";
import type { ProbeTask } from "#schemas/scheduler/probe.ts";
import { failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { VersionConflict } from "#shared/ledger/ledger.ts";
import { SandboxBreach } from "#shared/sandbox-link/breach.ts";
import { type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import type { Log } from "#shared/service/log.ts";
import { busy } from "../reports.ts";
import { sandboxToProbe } from "../sandbox/decide-probe.ts";
import type { SessionSandbox } from "../sandbox/sandbox.ts";
import type { Sessions } from "../sessions.ts";
import { judged, unprobed } from "./judge.ts";
import { openOwnPorts } from "./own-ports.ts";
import { type Trial, trialsFor } from "./targets.ts";

export type OpenProbeLink = (peer: {
  sandboxId: string;
  role: "service";
}) => Pick<SandboxLink, "ready" | "probe" | "close">;

export type Probing = Readonly<{
  sessions: Sessions;
  openLink: OpenProbeLink;
  settings: ProbeSettings;
  log: Log;
}>;

/** So many sandboxes are probed at once by one scheduler. */
export const PROBES_AT_ONCE = 8;
const FINDINGS_LOGGED_MAX = 20;
const READY_MS_MAX = 5_000;
const RETRY_MS = 1_000;
/** These providers have no network of their own: what is allowed goes through the proxy. */
const WITHOUT_ROUTES = new Set(["local"]);

export async function probeSandbox(probing: Probing, { session, generation }: ProbeTask): Promise<void> {
  const { sessions, log } = probing;
  const startedAt = performance.now();
  step("scheduler.probe.asking");
  const state = await sessions.now(session);
  const sandbox = sandboxToProbe(state);
  if (sandbox?.generation !== generation) return;
  const findings = await probed(probing, state, sandbox.sandboxId);
  const durationMs = Math.round(performance.now() - startedAt);
  const through = findings.filter(({ ok }) => !ok);
  if (through.length > 0) {
    const named = through.slice(0, FINDINGS_LOGGED_MAX);
    log.error({ session, generation, count: through.length, named }, "The network of a sandbox is not as it should be");
  }
  step("scheduler.probe.answered");
  try {
    await sessions.command({ type: "RecordProbe", session, generation, findings, durationMs });
    step("scheduler.probe.stored");
  } catch (error) {
    if (error instanceof VersionConflict) throw busy(session, error);
    if (!(error instanceof Refusal)) throw error;
    log.info({ session, generation, failure: failureOf(error) }, "A probe came too late");
  }
}

async function probed(
  probing: Probing,
  { network, provider = "" }: SessionSandbox,
  sandboxId: string,
): Promise<EgressFinding[]> {
  const { settings } = probing;
  const ownPorts = await openOwnPorts();
  const isRouted = !WITHOUT_ROUTES.has(provider);
  const trials = trialsFor({ settings, network, isRouted, sandboxId, ownPorts });
  try {
    const answer = await answerOf(probing, sandboxId, trials);
    return judged(trials, answer, await ownPorts.close());
  } catch (error) {
    if (error instanceof SandboxLost && error.cause instanceof SandboxBreach) return unprobed(error.message);
    if (error instanceof SandboxLost) throw unreachable(sandboxId, error);
    if (error instanceof Refusal) return unprobed(error.message);
    throw error;
  } finally {
    await ownPorts.close();
  }
}

async function answerOf({ openLink, settings }: Probing, sandboxId: string, trials: readonly Trial[]) {
  const link = openLink({ sandboxId, role: "service" });
  try {
    await link.ready(READY_MS_MAX);
    return await link.probe({ targets: trials.map(({ target }) => target), timeoutMs: settings.timeoutMs });
  } finally {
    await link.close();
  }
}

function unreachable(sandboxId: string, cause: SandboxLost): Retryable {
  return new Retryable("probe_unreachable", `${sandboxId} does not answer to be probed: ${cause.message}`, {
    cause,
    retryAfterMs: RETRY_MS,
  });
}
