// I1 and I2: what ran left its mark, so the marks say what ran and how often.
import type { CallHistory } from "../calls.ts";
import type { Observed } from "../observed.ts";
import type { Violation } from "../violation.ts";

/** I1: whatever ran was in the ledger before. */
export function marksWithoutStart({ marks, files }: Observed, calls: readonly CallHistory[]): Violation[] {
  // A step that was started again is found by I2; its mark belongs to the first start.
  const started = new Map(
    calls.toReversed().flatMap((call) => (call.started && call.markId ? [[call.markId, call.started]] : [])),
  );
  const unasked = files
    .filter(({ id }) => !started.has(id))
    .map(({ session, id }): Violation => ({ of: "I1", session, text: `File ${id} has no ToolStarted` }));
  const early = marks
    .filter(({ kind }) => kind === "start")
    .flatMap(({ session, id, atMs }): Violation[] => {
      const start = started.get(id);
      if (start === undefined) return [{ of: "I1", session, text: `Mark ${id} has no ToolStarted` }];
      if (start.storedAtMs <= atMs) return [];
      const lateMs = (start.storedAtMs - atMs).toFixed(3);
      return [{ of: "I1", session, text: `Mark ${id} is ${lateMs} ms older than its ToolStarted` }];
    });
  return [...unasked, ...early];
}

/** I2: no call left its mark twice, and nothing was asked for in two calls. */
export function marksTwice({ marks }: Observed, calls: readonly CallHistory[]): Violation[] {
  const lines = Map.groupBy(marks, ({ id, kind }) => `${kind} ${id}`);
  const twice = [...lines].flatMap(([line, [mark, ...more]]): Violation[] =>
    mark === undefined || more.length === 0
      ? []
      : [{ of: "I2", session: mark.session, text: `Mark "${line}" is there ${more.length + 1} times` }],
  );
  const started = Map.groupBy(
    calls.filter((call) => call.started !== undefined && call.markId !== undefined),
    ({ markId }) => markId,
  );
  const again = [...started.values()].flatMap(([call, ...more]): Violation[] =>
    call === undefined || more.length === 0
      ? []
      : [{ of: "I2", session: call.session, text: `Step ${call.markId} was started in ${more.length + 1} calls` }],
  );
  return [...twice, ...again];
}
