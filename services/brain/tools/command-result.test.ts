import { expect } from "chai";
import type { ExecResult } from "#schemas/wire/message.ts";
import { commandResult, OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES } from "./command-result.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");
const ended = (changes: Partial<ExecResult>): ExecResult => ({
  outcome: { status: "exited", exitCode: 0 },
  outputBytes: 0,
  keptBytes: 0,
  head: "",
  tail: "",
  durationMs: 1,
  leftRunning: false,
  ...changes,
});

describe("a command's result", () => {
  it("C69: names the handle of what was left running", () => {
    const { text } = commandResult(ended({ leftRunning: true }), "cal_1");
    expect(text).to.contain("Exit code 0.").and.contain('handle is "cal_1"');
  });

  it("C79: says that memory ran out", () => {
    const outcome = { status: "signalled", signal: "SIGKILL", outOfMemory: true } as const;
    const result = commandResult(ended({ outcome }), "cal_1");
    expect(result.text).to.contain("ran out of memory");
    expect(result.outcome).to.deep.equal({ status: "signalled", signal: "SIGKILL (out of memory)" });
  });

  it("never gives the model more than it asked for, whatever a hostile sandbox sends", () => {
    const huge = base64("x".repeat(500_000));
    const signal = "S".repeat(40);
    const outcome = { status: "signalled", signal, outOfMemory: true } as const;
    const result = commandResult(ended({ head: huge, tail: huge, outputBytes: 3, outcome }), "cal_1");
    expect(result.text.length).to.be.lessThan(OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES + 500);
    expect(result.outcome).to.deep.equal({ status: "signalled", signal });
  });

  it("C81: does not split a character between head and tail when nothing is left out", () => {
    const bytes = Buffer.from("a€b");
    const head = bytes.subarray(0, 2).toString("base64");
    const tail = bytes.subarray(2).toString("base64");
    expect(commandResult(ended({ head, tail, outputBytes: 5 }), "cal_1").text).to.match(/^a€b\n/);
  });
});
