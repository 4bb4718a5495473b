// The relay's endpoints that are not for sandboxes, tried with the sandbox's own pass and with none.
import type { ProbeFinding, ProbeOutcome, ProbeTarget } from "#schemas/wire/probe.ts";
import type { RelayAddress } from "../relay/address.ts";
import { askRelay } from "../relay/http.ts";

export type RelayEndpoint = Extract<ProbeTarget, { kind: "relay" }>;
export type RelayAccess = Readonly<{ address: RelayAddress; pass: () => string | null }>;

export async function tryRelayEndpoint(
  { address, pass }: RelayAccess,
  { index, target }: { index: number; target: RelayEndpoint },
): Promise<ProbeFinding> {
  const bearer = target.pass === "own" ? (pass() ?? "") : undefined;
  const { method, path } = target;
  const outcome = await askRelay(address, { method, path, ...(bearer === undefined ? {} : { bearer }) }).then(
    ({ status }) => outcomeOf(status),
    (): ProbeOutcome => "failed",
  );
  return { target: index, at: "", outcome };
}

function outcomeOf(status: number): ProbeOutcome {
  return [401, 403, 404, 405, 429].includes(status) ? "denied" : "answered";
}
