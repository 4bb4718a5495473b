// Sandboxes that do nothing but answer a probe, as a test wants them to.
import { once } from "node:events";
import { connect } from "node:net";
import type { ProbeAnswer, ProbeOutcome, ProbeTarget } from "#schemas/wire/probe.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { SandboxBreach } from "#shared/sandbox-link/breach.ts";
import { SandboxLost } from "#shared/sandbox-link/link.ts";
import type { OpenProbeLink } from "../probe/prober.ts";

export type ProbedSandbox = {
  outcome: ProbeOutcome;
  answers: "everything" | "nothing" | "refusal" | "nonsense";
  /** It connects to the server's own port and says that it could not. */
  visitsServer: boolean;
  /** So often it cannot be reached. */
  awayTimes: number;
  probes: number;
};

export function openProbedSandboxes(): { openLink: OpenProbeLink; sandbox: (sandboxId: string) => ProbedSandbox } {
  const known = new Map<string, ProbedSandbox>();
  const sandbox = (sandboxId: string): ProbedSandbox => {
    const one = known.get(sandboxId) ?? newSandbox();
    known.set(sandboxId, one);
    return one;
  };
  const openLink: OpenProbeLink = ({ sandboxId }) => {
    const one = sandbox(sandboxId);
    return {
      ready: async () => {
        if (one.awayTimes === 0) return { bootId: "boot-a" };
        one.awayTimes -= 1;
        throw new SandboxLost("unreachable", "It is away");
      },
      probe: ({ targets }) => answer(one, targets),
      close: async () => undefined,
    };
  };
  return { openLink, sandbox };
}

function newSandbox(): ProbedSandbox {
  return { outcome: "unreachable", answers: "everything", visitsServer: false, awayTimes: 0, probes: 0 };
}

async function answer(sandbox: ProbedSandbox, targets: readonly ProbeTarget[]): Promise<ProbeAnswer> {
  sandbox.probes += 1;
  if (sandbox.visitsServer) await visit(targets);
  if (sandbox.answers === "refusal") throw new Refusal("bad_request", "No such request");
  if (sandbox.answers === "nonsense") throw nonsense();
  if (sandbox.answers === "nothing") return { findings: [] };
  return { findings: targets.map((_, target) => ({ target, at: "", outcome: sandbox.outcome })) };
}

/** As a link tells of an answer that does not fit its schema. */
function nonsense(): SandboxLost {
  return new SandboxLost("unreachable", "It broke the protocol", { cause: new SandboxBreach("No such answer") });
}

async function visit(targets: readonly ProbeTarget[]): Promise<void> {
  for (const target of targets) {
    if (target.kind !== "tcp" || target.host !== "127.0.0.1") continue;
    const socket = connect(target.port, target.host);
    await once(socket, "close");
  }
}
