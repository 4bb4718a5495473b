// What the findings of a probe mean. The sandbox may lie, so what it does not say counts as got through, and what the
// server heard on its own ports counts whatever the sandbox says. Pure.
import { EGRESS_FINDINGS_MAX, type EgressFinding } from "#schemas/network/egress-finding.ts";
import type { ProbeAnswer, ProbeFinding, ProbeTarget } from "#schemas/wire/probe.ts";
import type { Trial } from "./targets.ts";

const TARGET_CHARACTERS_MAX = 300;
/** Nothing came back. A refusal is an answer: something out there heard. */
const SHUT = new Set<EgressFinding["outcome"]>(["unreachable", "timed-out", "no-interface", "denied"]);

/** `heard`: how often somebody reached the server's own ports meanwhile. */
export function judged(trials: readonly Trial[], { findings }: ProbeAnswer, heard: number): EgressFinding[] {
  const byTarget = Map.groupBy(findings, ({ target }) => target);
  const told = trials.flatMap((trial, index) => {
    const found = byTarget.get(index) ?? [];
    return found.length === 0 ? [missing(trial)] : found.map((finding) => judgedOne(trial, finding));
  });
  const all = heard > 0 ? [ownPortReached(), ...told] : told;
  return [...all.filter(({ ok }) => !ok), ...all.filter(({ ok }) => ok)].slice(0, EGRESS_FINDINGS_MAX);
}

/** The sandbox did not probe at all. */
export function unprobed(why: string): EgressFinding[] {
  const target = `the probe itself: ${why}`.slice(0, TARGET_CHARACTERS_MAX);
  return [{ target, expected: "closed", outcome: "missing", ok: false }];
}

function judgedOne(trial: Trial, { at, outcome }: ProbeFinding): EgressFinding {
  const { target, expected, name, isFirewalled = false } = trial;
  const isShut = SHUT.has(outcome) || (outcome === "refused" && (isFirewalled || isOwnLoopback(target, at)));
  const ok = expected === "closed" ? isShut : outcome === "answered";
  const where = at === "" ? name : `${name}: ${at}`;
  return { target: printable(where).slice(0, TARGET_CHARACTERS_MAX), expected, outcome, ok };
}

/** Its own loopback interface and the proxy behind it: who refuses there is the sandbox itself. */
function isOwnLoopback(target: ProbeTarget, at: string): boolean {
  if (target.kind.startsWith("proxy-")) return true;
  const host = "host" in target ? target.host : at;
  return host.startsWith("127.") || host === "::1";
}

function missing({ expected, name }: Trial): EgressFinding {
  return { target: name.slice(0, TARGET_CHARACTERS_MAX), expected, outcome: "missing", ok: false };
}

function ownPortReached(): EgressFinding {
  return { target: "the server's own port, as the server heard", expected: "closed", outcome: "answered", ok: false };
}

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?");
}
