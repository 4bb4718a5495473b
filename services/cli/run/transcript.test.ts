import { expect } from "chai";
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { openTerminal } from "../terminal/terminal.ts";
import { newTranscript } from "./transcript.ts";

const TURN = "trn_1";
const REPLY = "rpl_1";
const CALL = "cal_1";

type Reply = Extract<PistisEvent, { type: "ModelReplied" }>;

function replied(text: string, ...calls: { tool: string; input: object }[]): Reply {
  const usage = { inputTokens: 1, outputTokens: 1, cachedInputTokens: 0 };
  const content: Reply["data"]["content"] = [
    { type: "text", text },
    ...calls.map(({ tool, input }) => ({
      type: "tool-call" as const,
      callId: CALL,
      modelCallId: "m",
      tool,
      input: { ...input },
    })),
  ];
  return {
    type: "ModelReplied",
    data: {
      turnId: TURN,
      replyId: REPLY,
      model: "m",
      content,
      finishReason: "stop",
      usage,
      costUsd: null,
      requestMs: 1,
    },
  };
}

const started: PistisEvent = { type: "ToolStarted", data: { turnId: TURN, callId: CALL, tool: "bash", epoch: 1 } };

function done(text: string, bytes?: number, omittedBytes = 0): PistisEvent {
  const output = bytes === undefined ? {} : { output: { bytes, omittedBytes } };
  const outcome = { status: "exited" as const, exitCode: 0 };
  return { type: "ToolDone", data: { turnId: TURN, callId: CALL, outcome, text, durationMs: 5, ...output } };
}

function delta(text: string): LiveMessage {
  return { kind: "text-delta", epoch: 1, number: 1, turnId: TURN, replyId: REPLY, text };
}

function output(text: string, skippedBytes = 0): LiveMessage {
  return { kind: "output", epoch: 1, number: 1, callId: CALL, position: 0, text, skippedBytes };
}

function message(...events: PistisEvent[]): LedgerMessageView {
  const envelope = { sequence: 1, id: "evt_1", session: "ses_1", at: "2026-01-01T00:00:00Z", writer: "brain" as const };
  return { ...envelope, correlationId: "ses_1", causationId: null, hash: "", prev: "", events };
}

/** What is printed for these, in this order. */
function printed(...items: (PistisEvent | LiveMessage)[]): string {
  let text = "";
  const terminal = openTerminal({ write: (part) => (text += part) }, { write: () => undefined }, {});
  const transcript = newTranscript(terminal);
  for (const item of items) {
    if ("kind" in item) transcript.live(item);
    else transcript.ledger(message(item));
  }
  return text;
}

const bash = { tool: "bash", input: { command: "echo hi" } };

describe("a session's transcript", () => {
  it("says a reply once, whether it came live whole, in part, late or not at all", () => {
    const expected = "Hello there\n$ echo hi\n";
    const reply = replied("Hello there", bash);
    expect(printed(delta("Hello "), delta("there"), reply, started)).to.equal(expected);
    expect(printed(delta("Hello "), reply, started)).to.equal(expected);
    expect(printed(reply, started)).to.equal(expected);
    expect(printed(reply, delta("Hello there"), started)).to.equal(expected);
  });

  it("says a reply again in full when its live copy had a gap", () => {
    expect(printed(delta("Helre"), replied("Hello there"), started)).to.equal("Helre\nHello there\nbash\n");
  });

  it("shows a command's output once, whether it came live whole, in part, late or not at all", () => {
    const expected = "x\n$ echo hi\n  hi\n  there\n  ✓ exit 0 · 5 ms · 9 B\n";
    const before = [replied("x", bash), started];
    const after = done("hi\nthere\n[Exit code 0.]", 9);
    expect(printed(...before, output("hi\n"), output("there\n"), after)).to.equal(expected);
    expect(printed(...before, output("hi\n"), after)).to.equal(expected);
    expect(printed(...before, after)).to.equal(expected);
    expect(printed(...before, after, output("hi\nthere\n"))).to.equal(expected);
  });

  it("says what it did not show", () => {
    const before = [replied("x", bash), started];
    const skipped = printed(...before, output("b\n", 4_096), done("a\nb\n[Exit code 0.]", 4_098));
    expect(skipped).to.contain("… 4.0 KiB not shown …");
    const cut = printed(
      ...before,
      output("a\n"),
      done("a\n[… 1 MB left out …]\nz\n[Exit code 0.]", 1_000_000, 999_000),
    );
    expect(cut).to.contain("the rest of 976.6 KiB was not shown live");
  });

  it("lets nothing that a command prints steer the terminal", () => {
    const text = printed(replied("x", bash), started, output("\u001b]0;owned\u0007"), done("", 9));
    expect(text).to.not.contain("\u001b").and.not.contain("\u0007");
  });

  it("tells what became of a call that has no result", () => {
    const lost = {
      turnId: TURN,
      callId: CALL,
      reason: "sandbox_lost",
      text: "Outcome unknown: it may have partly run.",
    };
    expect(printed(started, { type: "ToolOutcomeUnknown", data: lost })).to.contain("! Outcome unknown");
  });

  it("ends a turn with its reason and the next step", () => {
    const failure = { code: "model_silent", message: "The model said nothing for 120 s", next: "Try again." };
    const text = printed({ type: "TurnEnded", data: { turnId: TURN, reason: "failed", failure } });
    expect(text).to.equal("✗ turn failed: The model said nothing for 120 s (model_silent). Next: Try again.\n");
  });

  it("tells of sandbox and repository in plain words", () => {
    const sandbox = { sandboxId: "sbx_1", generation: 1 };
    const copied = {
      ...sandbox,
      commit: "a".repeat(40),
      branch: "main",
      bundleBytes: 2_048,
      shallow: true,
      durationMs: 7,
    };
    const text = printed(
      { type: "SandboxCreated", data: { ...sandbox, durationMs: 61 } },
      { type: "RepositoryCopied", data: copied },
    );
    expect(text).to.equal(
      "  · sandbox made in 61 ms\n  · repository copied in: main at aaaaaaaaaa, 2.0 KiB, without its full history, 7 ms\n",
    );
  });
});
