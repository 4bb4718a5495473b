// One line for each invariant that switches it off, and the tests that are to go red of it.
import type { Invariant } from "./violation.ts";

export type Mutation = Readonly<{
  invariant: Invariant;
  file: string;
  from: string;
  to: string;
  tests: string;
  named: string;
  /** Faults that the injector draws; of all kinds when absent. */
  kinds?: readonly string[];
  /** Why no fault from outside can show it: another guard stands before or behind this one. */
  unseen?: string;
}>;

const BRAIN = "services/brain";
const SCHEDULER = "services/scheduler/sandbox";

export const MUTATIONS: readonly Mutation[] = [
  {
    invariant: "I1",
    file: `${BRAIN}/turn/calls.ts`,
    from: 'const started = open.filter(({ status }) => status === "started");',
    to: "const started = open;",
    tests: `${BRAIN}/turn/starts.test.ts`,
    named: "I1",
  },
  {
    invariant: "I2",
    file: "services/pistisd/state/call-records.ts",
    from: 'appendLine(path, "ax", beginning);',
    to: 'appendLine(path, "a", beginning);',
    tests: "services/pistisd/state/state.test.ts",
    named: "I2",
    kinds: ["repeat a call"],
  },
  {
    invariant: "I3",
    file: `${BRAIN}/session/decide.ts`,
    from: 'if (call === undefined || call.status === "closed") return [];',
    to: "if (call === undefined) return [];",
    tests: `${BRAIN}/session/decide.test.ts`,
    named: "I3",
    unseen: "each end is decided on once; only an append whose answer was lost is decided on again",
  },
  {
    invariant: "I3",
    file: `${BRAIN}/session/decide.ts`,
    from: "const events = [...openCalls(session).map((call) => closeAtEnd(turnId, call)), turnEnded(turnId, ending)];",
    to: "const events: BrainEvent[] = [turnEnded(turnId, ending)];",
    tests: `${BRAIN}/session/decide.test.ts`,
    named: "I3",
  },
  {
    invariant: "I4",
    file: `${BRAIN}/session/decide.ts`,
    from: 'if (session.status !== "working" || session.turn.epoch !== epoch) {',
    to: 'if (session.status !== "working") {',
    tests: `${BRAIN}/session/decide.test.ts`,
    named: "I4",
    kinds: ["stop brain at a step"],
  },
  {
    invariant: "I4",
    file: "services/pistisd/channel/epoch-fence.ts",
    from: "if (epoch >= state.epoch()) return;",
    to: "if (epoch >= 0) return;",
    tests: "services/pistisd/channel/channel.int.test.ts",
    named: "I4",
    kinds: ["send as a deposed brain"],
  },
  {
    invariant: "I5",
    file: `${BRAIN}/turn/call.ts`,
    from: 'return effect === "reads" ? unknownRead(call.callId, why) : unknown(call.callId, `sandbox_${error.code}`, why);',
    to: 'return notRun(call.callId, "lost", why);',
    tests: `${BRAIN}/turn/recovery.test.ts`,
    named: "I5",
  },
  {
    invariant: "I6",
    file: `${BRAIN}/session/decide.ts`,
    from: 'if (openCalls(session).length > 0) throw new Refusal("calls_open", "A reply cannot follow while calls are open");',
    to: "",
    tests: `${BRAIN}/session/decide.test.ts`,
    named: "I6",
    unseen: "the turn's loop closes every call before it asks the model; this guards against a loop that does not",
  },
  {
    invariant: "I7",
    file: `${SCHEDULER}/decide.ts`,
    from: 'if (!state.ended) throw new Refusal("session_open", `${session} is not over, so its sandbox stays`);',
    to: "",
    tests: `${SCHEDULER}/decide.test.ts`,
    named: "I7",
    unseen: "only the end of a session asks for a deletion",
  },
  {
    invariant: "I8",
    file: `${SCHEDULER}/decide.ts`,
    from: 'return need === "absent" || need === "stopped" ? [] : [requested("inspect", state, sandbox, taskId)];',
    to: 'return [requested("create", state, { ...sandbox, generation: sandbox.generation + 1 }, taskId)];',
    tests: `${SCHEDULER}/decide.test.ts`,
    named: "I8",
  },
];
