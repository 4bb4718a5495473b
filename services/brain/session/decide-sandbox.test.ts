import {
  call,
  ended,
  finish,
  given,
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
  toolDone,
  toolStarted,
} from "../testing/session-fixture.ts";
import type { BrainCommand } from "./decide.ts";

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

  it("is asked about again by the next turn that cannot reach it", () => {
    given(...open, needed("unreachable"), ended("failed"), posted("msg_2"), startedTurn(2, "msg_2"))
      .when({ type: "AskForSandbox", epoch: 2, reason: "unreachable" })
      .then(needed("unreachable"));
  });

  it("is asked about once in a turn while it does not answer, and again after it had answered", () => {
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
