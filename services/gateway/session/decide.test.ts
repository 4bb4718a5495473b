import { QUEUED_MESSAGES_MAX } from "#schemas/api/session.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { specify } from "#shared/testing/given.ts";
import { decide, type SessionCommand } from "./decide.ts";
import { evolve, initialState } from "./session.ts";

const { given } = specify({ initialState, evolve, decide });

const created: PistisEvent = { type: "SessionCreated", data: { title: "t", model: "script", provider: "local" } };
const posted = (messageId: string, text = "hello"): PistisEvent => ({
  type: "MessagePosted",
  data: { messageId, text, delivery: "steer" },
});
const started: PistisEvent = {
  type: "TurnStarted",
  data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: ["msg_1"] },
};
const ended: PistisEvent = { type: "TurnEnded", data: { turnId: "trn_1", reason: "completed" } };
const interruptRequested: PistisEvent = { type: "InterruptRequested", data: { turnId: "trn_1" } };
const endRequested: PistisEvent = { type: "SessionEndRequested", data: {} };
const sessionEnded: PistisEvent = { type: "SessionEnded", data: {} };

const create: SessionCommand = { type: "CreateSession", title: "t", model: "script", provider: "local" };
const post = (messageId: string, text = "hello"): SessionCommand => ({
  type: "PostMessage",
  messageId,
  text,
  delivery: "steer",
});
const withdraw = (messageId: string): SessionCommand => ({ type: "WithdrawMessage", messageId });
const interrupt: SessionCommand = { type: "InterruptTurn" };
const end: SessionCommand = { type: "EndSession" };

describe("what people may do to a session", () => {
  it("opens it once, with its first message in the same append", () => {
    given().when(create).then(created);
    given()
      .when({ ...create, message: { messageId: "msg_1", text: "hello" } })
      .then(created, posted("msg_1"));
    given(created).when(create).thenNothing();
  });

  it("stores a message once, however often it is sent", () => {
    given(created).when(post("msg_1")).then(posted("msg_1"));
    given(created, posted("msg_1")).when(post("msg_1")).thenNothing();
    given(created, posted("msg_1"), started, ended, endRequested).when(post("msg_1")).thenNothing();
  });

  it("refuses another message under an id that is taken", () => {
    given(created, posted("msg_1")).when(post("msg_1", "other")).thenRefused("message_id_reused");
  });

  it("takes messages while a turn is open and none once the session is over", () => {
    given(created, posted("msg_1"), started).when(post("msg_2")).then(posted("msg_2"));
    given(created, endRequested).when(post("msg_2")).thenRefused("session_ended");
    given(created, endRequested, sessionEnded).when(post("msg_2")).thenRefused("session_ended");
  });

  it("refuses more waiting messages than the limit", () => {
    const many = Array.from({ length: QUEUED_MESSAGES_MAX }, (_, index) => posted(`msg_${index}`));
    given(created, ...many)
      .when(post("msg_more"))
      .thenRefused("queue_full");
    given(created, ...many, { type: "MessageWithdrawn", data: { messageId: "msg_0" } })
      .when(post("msg_more"))
      .then(posted("msg_more"));
  });

  it("C65: withdraws a message until the model has seen it, also after Stop", () => {
    const withdrawn: PistisEvent = { type: "MessageWithdrawn", data: { messageId: "msg_2" } };
    given(created, posted("msg_1"), started, posted("msg_2"), interruptRequested, ended)
      .when(withdraw("msg_2"))
      .then(withdrawn);
    given(created, posted("msg_2"), withdrawn).when(withdraw("msg_2")).thenNothing();
    given(created, posted("msg_1"), started).when(withdraw("msg_1")).thenRefused("already_delivered");
    given(created, posted("msg_1"), started, posted("msg_2"), {
      type: "MessagesDelivered",
      data: { turnId: "trn_1", messageIds: ["msg_2"] },
    })
      .when(withdraw("msg_2"))
      .thenRefused("already_delivered");
    given(created).when(withdraw("msg_9")).thenRefused("message_not_found");
  });

  it("stops the open turn once, and refuses when none is open", () => {
    given(created, posted("msg_1"), started).when(interrupt).then(interruptRequested);
    given(created, posted("msg_1"), started, interruptRequested).when(interrupt).thenNothing();
    given(created, posted("msg_1")).when(interrupt).thenRefused("no_open_turn");
    given(created, posted("msg_1"), started, ended).when(interrupt).thenRefused("no_open_turn");
  });

  it("ends a session once, whatever it does", () => {
    given(created, posted("msg_1"), started).when(end).then(endRequested);
    given(created, endRequested).when(end).thenNothing();
    given(created, endRequested, sessionEnded).when(end).thenNothing();
  });

  it("knows nothing of a session that was not opened", () => {
    for (const command of [post("msg_1"), withdraw("msg_1"), interrupt, end]) {
      given().when(command).thenRefused("session_not_found");
    }
  });
});
