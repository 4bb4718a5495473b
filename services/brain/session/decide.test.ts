import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { BrainEvent } from "#schemas/ledger/events/brain.ts";
import {
  call,
  created,
  ended,
  endRequested,
  endTurn,
  finish,
  given,
  interrupt,
  joined,
  needed,
  open,
  posted,
  probed,
  record,
  replied,
  start,
  startCalls,
  startedTurn,
  stopped,
  takenOver,
  toolDone,
  toolStarted,
  turnId,
} from "../testing/session-fixture.ts";
import type { BrainCommand } from "./decide.ts";

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
