import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { BrainEvent, ReplyPart } from "#schemas/ledger/events/brain.ts";
import { specify } from "#shared/testing/given.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { type BrainCommand, type CallEnd, decide } from "./decide.ts";
import { evolve, initialState } from "./session.ts";

const { given } = specify({ initialState, evolve, decide });

const turnId = "trn_1";
const created: PistisEvent = { type: "SessionCreated", data: { title: "", model: "script", provider: "local" } };
const posted = (messageId: string, delivery: "steer" | "queue" = "steer"): PistisEvent => ({
  type: "MessagePosted",
  data: { messageId, text: `text of ${messageId}`, delivery },
});
const startedTurn = (epoch: number, ...messageIds: string[]): BrainEvent => ({
  type: "TurnStarted",
  data: { turnId, epoch, brain: "brain-a", messageIds },
});
const needed = (reason: "absent" | "stopped" | "unreachable" | "unprobed"): BrainEvent => ({
  type: "SandboxNeeded",
  data: { turnId, reason },
});
const joined = (generation = 1, bootId = "boot-1"): PistisEvent => ({
  type: "SandboxJoined",
  data: { sandboxId: "sbx_1", generation, bootId, report: reportPlace(1) },
});
const probed = (generation = 1, passed = true): PistisEvent => {
  const outcome = passed ? ("unreachable" as const) : ("answered" as const);
  const findings = [{ target: "a host", expected: "closed" as const, outcome, ok: passed }];
  return { type: "EgressProbed", data: { sandboxId: "sbx_1", generation, passed, findings, durationMs: 1 } };
};
const stopped: PistisEvent = { type: "SandboxStopped", data: { sandboxId: "sbx_1", generation: 1, reason: "crash" } };
const interrupt: PistisEvent = { type: "InterruptRequested", data: { turnId } };
const endRequested: PistisEvent = { type: "SessionEndRequested", data: {} };
const ended = (reason: "completed" | "interrupted" | "failed"): BrainEvent => ({
  type: "TurnEnded",
  data: { turnId, reason },
});
const call = (callId: string): ReplyPart => ({
  type: "tool-call",
  callId,
  modelCallId: callId,
  tool: "bash",
  input: {},
});
const replyData = (...content: ReplyPart[]) => ({
  replyId: "rpl_1",
  model: "script",
  content,
  finishReason: "stop" as const,
  usage: { inputTokens: 1, outputTokens: 1, cachedInputTokens: 0 },
  costUsd: 0,
  requestMs: 1,
});
const replied = (...content: ReplyPart[]): BrainEvent => ({
  type: "ModelReplied",
  data: { turnId, ...replyData(...content) },
});
const toolStarted = (callId: string, epoch = 1): BrainEvent => ({
  type: "ToolStarted",
  data: { turnId, callId, tool: "bash", epoch, sandboxId: "sbx_1" },
});
const doneData = (callId: string) => ({
  callId,
  outcome: { status: "exited", exitCode: 0 } as const,
  text: "",
  durationMs: 1,
});
const toolDone = (callId: string): BrainEvent => ({ type: "ToolDone", data: { turnId, ...doneData(callId) } });
const takenOver: BrainEvent = { type: "TurnTakenOver", data: { turnId, epoch: 2, brain: "brain-b" } };

const start: BrainCommand = { type: "StartTurn", turnId, brain: "brain-a" };
const record = (...content: ReplyPart[]) => ({
  type: "RecordReply" as const,
  epoch: 1,
  reply: replyData(...content),
  refused: [],
  ending: { reason: "completed" as const },
});
const startCalls = (...callIds: string[]): BrainCommand => ({
  type: "StartCalls",
  epoch: 1,
  callIds,
  sandboxId: "sbx_1",
});
const end = (callId: string): CallEnd => ({ type: "ToolDone", data: doneData(callId) });
const finish = (callId: string, ...next: string[]): BrainCommand => ({
  type: "FinishCall",
  epoch: 1,
  end: end(callId),
  next: next.length === 0 ? undefined : { callIds: next, sandboxId: "sbx_1" },
});
const endTurn: BrainCommand = { type: "EndTurn", epoch: 1, ending: { reason: "interrupted" } };
const open = [created, posted("msg_1"), startedTurn(1, "msg_1"), needed("absent"), joined(), probed()];

describe("starting a turn", () => {
  it("takes every message that waits, and asks for a sandbox when none is up", () => {
    given(created, posted("msg_1"), posted("msg_2", "queue"))
      .when(start)
      .then(startedTurn(1, "msg_1", "msg_2"), needed("absent"));
    given(created, posted("msg_1"), joined(), stopped).when(start).then(startedTurn(1, "msg_1"), needed("stopped"));
    given(created, posted("msg_1"), joined(), probed()).when(start).then(startedTurn(1, "msg_1"));
  });

  it("raises the epoch with every turn", () => {
    given(...open, ended("completed"), posted("msg_2"))
      .when(start)
      .then(startedTurn(2, "msg_2"));
  });

  it("decides nothing without a message, during a turn, or when the session is ending", () => {
    given(created).when(start).thenNothing();
    given(...open, posted("msg_2"))
      .when(start)
      .thenNothing();
    given(created, posted("msg_1"), endRequested).when(start).thenNothing();
    const withdrawn: PistisEvent = { type: "MessageWithdrawn", data: { messageId: "msg_1" } };
    given(created, posted("msg_1"), withdrawn).when(start).thenNothing();
  });

  it("C67: leaves what waited before Stop until the user writes again, then takes all of it", () => {
    const interrupted = [...open, posted("msg_2", "queue"), interrupt, ended("interrupted")];
    given(...interrupted)
      .when(start)
      .thenNothing();
    given(...interrupted, posted("msg_3"))
      .when(start)
      .then(startedTurn(2, "msg_2", "msg_3"));
    given(...open, posted("msg_2", "queue"), interrupt, posted("msg_3"), ended("interrupted"))
      .when(start)
      .then(startedTurn(2, "msg_2", "msg_3"));
  });
});

describe("the epoch", () => {
  it("I4: a deposed brain can decide nothing", () => {
    for (const command of [record(), startCalls("cal_1"), finish("cal_1"), endTurn]) {
      given(...open, takenOver)
        .when(command)
        .thenRefused("deposed");
      given(...open, ended("completed"))
        .when(command)
        .thenRefused("deposed");
    }
  });

  it("is raised by a take-over of an open turn, and by nothing else", () => {
    const takeOver: BrainCommand = { type: "TakeOverTurn", brain: "brain-b" };
    given(...open)
      .when(takeOver)
      .then(takenOver);
    given(...open, ended("completed"))
      .when(takeOver)
      .thenNothing();
  });
});

describe("a reply", () => {
  it("ends the turn in the same append when nothing is left to do", () => {
    given(...open)
      .when(record())
      .then(replied(), ended("completed"));
  });

  it("does not end the turn while a steering message waits", () => {
    given(...open, posted("msg_2"))
      .when(record())
      .then(replied());
    given(...open, posted("msg_2", "queue"))
      .when(record())
      .then(replied(), ended("completed"));
  });

  it("starts its first calls in the same append", () => {
    const command = record(call("cal_1"), call("cal_2"));
    given(...open)
      .when({ ...command, start: { callIds: ["cal_1"], sandboxId: "sbx_1" } })
      .then(replied(call("cal_1"), call("cal_2")), toolStarted("cal_1"));
  });

  it("C63: starts no call after Stop", () => {
    given(...open, interrupt)
      .when(record(call("cal_1")))
      .then(replied(call("cal_1")));
    given(...open, replied(call("cal_1")), interrupt)
      .when(startCalls("cal_1"))
      .thenNothing();
    given(...open, replied(call("cal_1")), endRequested)
      .when(startCalls("cal_1"))
      .thenNothing();
  });

  it("I6: cannot follow while calls are open", () => {
    given(...open, replied(call("cal_1")), toolStarted("cal_1"))
      .when(record())
      .thenRefused("calls_open");
  });
});

describe("a call", () => {
  const running = [...open, replied(call("cal_1"), call("cal_2")), toolStarted("cal_1")];

  it("starts once", () => {
    given(...running)
      .when(startCalls("cal_1"))
      .thenNothing();
    given(...running)
      .when(startCalls("cal_2"))
      .then(toolStarted("cal_2"));
  });

  it("I3: is closed once", () => {
    given(...running)
      .when(finish("cal_1"))
      .then(toolDone("cal_1"));
    given(...running, toolDone("cal_1"))
      .when(finish("cal_1"))
      .thenNothing();
    given(...running)
      .when(finish("cal_2"))
      .thenRefused("call_not_started");
  });

  it("starts the next one in the same append, but not after Stop", () => {
    given(...running)
      .when(finish("cal_1", "cal_2"))
      .then(toolDone("cal_1"), toolStarted("cal_2"));
    given(...running, interrupt)
      .when(finish("cal_1", "cal_2"))
      .then(toolDone("cal_1"));
  });

  it("I3: is closed by the end of the turn, as not run or as unknown", () => {
    given(...running)
      .when(endTurn)
      .then(
        {
          type: "ToolOutcomeUnknown",
          data: {
            turnId,
            callId: "cal_1",
            reason: "turn_ended",
            text: "Outcome unknown: the turn ended before the result arrived. The call may have partly or fully run.",
          },
        },
        {
          type: "ToolNotRun",
          data: {
            turnId,
            callId: "cal_2",
            reason: "turn_ended",
            text: "This call did not run: the turn ended before it started.",
          },
        },
        ended("interrupted"),
      );
  });
});

describe("messages during a turn", () => {
  const deliver: BrainCommand = { type: "DeliverMessages", epoch: 1 };
  const delivered = (...messageIds: string[]): BrainEvent => ({
    type: "MessagesDelivered",
    data: { turnId, messageIds },
  });

  it("reach the model at its next step when they steer, and wait when they queue", () => {
    given(...open, posted("msg_2"), posted("msg_3", "queue"))
      .when(deliver)
      .then(delivered("msg_2"));
    given(...open, posted("msg_3", "queue"))
      .when(deliver)
      .thenNothing();
  });

  it("are not delivered between a call and its result, nor after Stop", () => {
    given(...open, replied(call("cal_1")), posted("msg_2"))
      .when(deliver)
      .thenNothing();
    given(...open, posted("msg_2"), interrupt)
      .when(deliver)
      .thenNothing();
  });
});

describe("the sandbox", () => {
  const ask = (reason: "absent" | "stopped" | "unreachable"): BrainCommand => ({
    type: "AskForSandbox",
    epoch: 1,
    reason,
  });

  it("is asked for once", () => {
    given(...open, stopped)
      .when(ask("stopped"))
      .then(needed("stopped"));
    given(...open, stopped, needed("stopped"))
      .when(ask("stopped"))
      .thenNothing();
    given(...open)
      .when(ask("stopped"))
      .thenNothing();
  });

  it("is asked about once while it does not answer, and again after it had answered", () => {
    given(...open)
      .when(ask("unreachable"))
      .then(needed("unreachable"));
    given(...open, needed("unreachable"))
      .when(ask("unreachable"))
      .thenNothing();
    given(...open, needed("unreachable"), replied(call("cal_1")), toolStarted("cal_1"))
      .when(ask("unreachable"))
      .then(needed("unreachable"));
  });
});

describe("the network of the sandbox", () => {
  const replacing = joined(2, "boot-2");

  it("C117: lets no call start before a probe of this generation passed", () => {
    const unprobed = [...open.slice(0, -1), replied(call("cal_1"))];
    given(...unprobed)
      .when(startCalls("cal_1"))
      .thenNothing();
    given(...unprobed, probed(1, false))
      .when(startCalls("cal_1"))
      .thenNothing();
    given(...unprobed, probed())
      .when(startCalls("cal_1"))
      .then(toolStarted("cal_1"));
    given(...unprobed, probed(), replacing)
      .when(startCalls("cal_1"))
      .thenNothing();
    given(...unprobed, probed(), replacing, probed(2))
      .when(startCalls("cal_1"))
      .then(toolStarted("cal_1"));
  });

  it("C117: holds back the first call of a reply, and the next one after a result, just the same", () => {
    const command = record(call("cal_1"));
    given(...open, replacing)
      .when({ ...command, start: { callIds: ["cal_1"], sandboxId: "sbx_1" } })
      .then(replied(call("cal_1")));
    given(...open, replied(call("cal_1"), call("cal_2")), toolStarted("cal_1"), replacing)
      .when(finish("cal_1", "cal_2"))
      .then(toolDone("cal_1"));
  });

  it("is asked about anew by the turn after one that failed for it, and never again once it passed", () => {
    const failed = [...open.slice(0, -1), probed(1, false), ended("failed"), posted("msg_2")];
    given(...failed)
      .when(start)
      .then(startedTurn(2, "msg_2"), needed("unprobed"));
    given(...open, joined(1, "boot-2"), ended("completed"), posted("msg_2"))
      .when(start)
      .then(startedTurn(2, "msg_2"));
  });
});

describe("ending a session", () => {
  const sessionEnded: BrainEvent = { type: "SessionEnded", data: {} };

  it("ends an open turn first, in one append", () => {
    given(...open, endRequested)
      .when(endTurn)
      .then(ended("interrupted"), sessionEnded);
  });

  it("happens once, and only when it was asked for", () => {
    given(created, endRequested).when({ type: "EndSession" }).then(sessionEnded);
    given(created, endRequested, sessionEnded).when({ type: "EndSession" }).thenNothing();
    given(created).when({ type: "EndSession" }).thenNothing();
  });
});
