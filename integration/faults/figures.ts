// The figures of a run.
import type { EventOf } from "#schemas/ledger/event.ts";
import { callsOf } from "./calls.ts";
import { countLateStarts } from "./checks/epochs.ts";
import type { Observed, ObservedMessage } from "./observed.ts";
import type { Outage } from "./stage.ts";

/** A brain was killed or stopped: by its name, which others of later starts may have too. */
export type BrainDown = Readonly<{ brain: string; atMs: number }>;

export type RunFigures = Readonly<{
  messages: number;
  turns: number;
  calls: number;
  unknown: number;
  /** Of those that leave something behind: reads that were lost are simply asked for again. */
  changingCalls: number;
  changingUnknown: number;
  notRun: number;
  marks: number;
  /** Calls that began after they were told as unknown, as their sandbox had not answered. */
  lateStarts: number;
  /** Where nothing else that a take-over needs was down or cut off: another brain, NATS, PostgreSQL. */
  takeOverMs: readonly number[];
  /** Of all, other faults at the same time included. */
  takeOverUnderFaultsMs: readonly number[];
  /** Those that took long, with what else was down meanwhile. */
  slowTakeOvers: readonly string[];
}>;

const READS = new Set(["read", "list", "search", "bash_output", "processes"]);

export function figuresOf(
  observed: Observed,
  brainsDown: readonly BrainDown[],
  outages: readonly Outage[],
): RunFigures {
  const takeOvers = takeOversOf(observed.messages, brainsDown);
  const calls = callsOf(observed.messages).filter(({ started }) => started !== undefined);
  const changing = calls.filter(({ tool }) => !READS.has(tool));
  const ended = (list: typeof calls, type: string) => list.filter(({ ends }) => ends[0]?.type === type).length;
  const turns = observed.messages.filter(({ events }) => events.some(({ type }) => type === "TurnStarted")).length;
  return {
    messages: observed.messages.length,
    turns,
    calls: calls.length,
    unknown: ended(calls, "ToolOutcomeUnknown"),
    changingCalls: changing.length,
    changingUnknown: ended(changing, "ToolOutcomeUnknown"),
    notRun: ended(calls, "ToolNotRun"),
    marks: observed.marks.length,
    lateStarts: countLateStarts(observed),
    takeOverMs: takeOvers.filter((one) => !isDisturbed(one, outages)).map(lengthOf),
    takeOverUnderFaultsMs: takeOvers.map(lengthOf),
    slowTakeOvers: takeOvers.filter((one) => lengthOf(one) > SLOW_MS).map((one) => inWords(one, outages)),
  };
}

type TakeOver = BrainDown & Readonly<{ session: string; untilMs: number }>;

const SLOW_MS = 8_000;

function inWords(takeOver: TakeOver, outages: readonly Outage[]): string {
  const { brain, session, atMs, untilMs } = takeOver;
  const meanwhile = outages
    .filter((outage) => outage.fromMs < untilMs && outage.untilMs > atMs)
    .map(({ name, fromMs, untilMs: endMs }) => `${name} ${Math.round(fromMs - atMs)}..${Math.round(endMs - atMs)}`);
  return `${session} of ${brain} after ${lengthOf(takeOver)} ms; down meanwhile: ${meanwhile.join(", ")}`;
}

const NEEDED = new Set<string>(["nats-server", "postgres"]);

function isDisturbed({ brain, atMs, untilMs }: TakeOver, outages: readonly Outage[]): boolean {
  return outages.some(({ name, ...outage }) => {
    const isNeeded = NEEDED.has(name) || (name.startsWith("brain-") && name !== brain);
    return isNeeded && outage.fromMs < untilMs && outage.untilMs > atMs;
  });
}

function lengthOf({ atMs, untilMs }: TakeOver): number {
  return Math.round(untilMs - atMs);
}

/** From the moment in which the owner of an open turn went down until another start of a brain had taken it over. */
function takeOversOf(messages: readonly ObservedMessage[], brainsDown: readonly BrainDown[]): TakeOver[] {
  const bySession = Map.groupBy(messages, ({ session }) => session);
  return [...bySession.values()].flatMap((session) => takeOversIn(session, brainsDown));
}

function takeOversIn(session: readonly ObservedMessage[], brainsDown: readonly BrainDown[]): TakeOver[] {
  let owner: { brain: string; sinceMs: number } | undefined;
  const times: TakeOver[] = [];
  for (const { session: name, storedAtMs, events } of session) {
    for (const event of events) {
      if (event.type === "TurnTakenOver") times.push(...sinceDown(owner, storedAtMs, { session: name, brainsDown }));
      if (event.type === "TurnEnded") owner = undefined;
      if (isOwned(event)) owner = { brain: event.data.brain, sinceMs: storedAtMs };
    }
  }
  return times;
}

function isOwned(event: ObservedMessage["events"][number]): event is EventOf<"TurnStarted" | "TurnTakenOver"> {
  return event.type === "TurnStarted" || event.type === "TurnTakenOver";
}

function sinceDown(
  owner: { brain: string; sinceMs: number } | undefined,
  atMs: number,
  { session, brainsDown }: { session: string; brainsDown: readonly BrainDown[] },
): TakeOver[] {
  if (owner === undefined) return [];
  const down = brainsDown.find(
    ({ brain, atMs: downMs }) => owner.brain.startsWith(`${brain}-`) && downMs >= owner.sinceMs && downMs <= atMs,
  );
  return down === undefined ? [] : [{ ...down, session, untilMs: atMs }];
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
