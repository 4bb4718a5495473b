// The figures of one or more runs as they are published.
import { median } from "./figures.ts";
import type { RunResult } from "./injector.ts";
import { INVARIANTS } from "./violation.ts";

export type Summary = Readonly<{
  faults: number;
  /** Of each invariant; `chain`, `mirror`, `delivery` and `rest` besides I1 to I8. */
  violations: Readonly<Record<string, number>>;
  /** Services that ended by themselves, at no step and not killed. */
  exits: number;
  calls: number;
  turns: number;
  ledgerMessages: number;
  /** Share of the started calls whose outcome stayed unknown. */
  unknownShare: number;
  /** The same of those that change something: commands and files. */
  unknownShareOfChanges: number;
  marks: number;
  /** Calls that began after they were told as unknown, as their sandbox had not answered. */
  lateStarts: number;
  /** Nothing else that it needs was down at the time. */
  takeOverMs: Spread;
  /** Other faults at the same time included. */
  takeOverUnderFaultsMs: Spread;
  byKind: Readonly<Record<string, number>>;
}>;

type Spread = Readonly<{ median: number; max: number; count: number }>;

export function summaryOf(results: readonly RunResult[]): Summary {
  const sum = (of: (result: RunResult) => number) => results.reduce((total, result) => total + of(result), 0);
  const violations = [...INVARIANTS, "chain", "mirror", "delivery", "rest"].map((name) => [
    name,
    sum((result) => result.violations.filter(({ of }) => of === name).length),
  ]);
  const kinds = Map.groupBy(
    results.flatMap(({ faults }) => faults),
    ({ kind }) => kind,
  );
  return {
    faults: sum(({ faults }) => faults.length),
    violations: Object.fromEntries(violations),
    exits: sum(({ exits }) => exits.length),
    calls: sum(({ figures }) => figures.calls),
    turns: sum(({ figures }) => figures.turns),
    ledgerMessages: sum(({ figures }) => figures.messages),
    unknownShare: share(
      sum(({ figures }) => figures.unknown),
      sum(({ figures }) => figures.calls),
    ),
    unknownShareOfChanges: share(
      sum(({ figures }) => figures.changingUnknown),
      sum(({ figures }) => figures.changingCalls),
    ),
    marks: sum(({ figures }) => figures.marks),
    lateStarts: sum(({ figures }) => figures.lateStarts),
    takeOverMs: spreadOf(results.flatMap(({ figures }) => figures.takeOverMs)),
    takeOverUnderFaultsMs: spreadOf(results.flatMap(({ figures }) => figures.takeOverUnderFaultsMs)),
    byKind: Object.fromEntries([...kinds].map(([kind, list]) => [kind, list.length]).sort()),
  };
}

function spreadOf(times: readonly number[]): Spread {
  return { median: median(times), max: Math.max(0, ...times), count: times.length };
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((part / whole) * 10_000) / 10_000;
}
