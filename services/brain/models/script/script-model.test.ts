import { expect } from "chai";
import type { HistoryEntry } from "../../session/history.ts";
import type { ReplyContent } from "../model.ts";
import { parseScript } from "./parse.ts";
import { FORMS, scriptModel } from "./script-model.ts";

const message = (text: string): HistoryEntry => ({ kind: "message", messageId: "msg_1", text });
const result = (failed = false): HistoryEntry => ({ kind: "result", callId: "cal_1", text: "", failed });

async function ask(history: HistoryEntry[]): Promise<readonly ReplyContent[]> {
  const signal = new AbortController().signal;
  const reply = await scriptModel("script").request({ system: "", history, tools: [], signal, onDelta: ignore });
  return reply.content;
}

function ignore(): void {
  // The whole reply is looked at.
}

/** Plays a whole message: every call succeeds, or the ones whose index is named fail. */
async function play(text: string, ...failing: number[]): Promise<ReplyContent[][]> {
  const history = [message(text)];
  const replies: ReplyContent[][] = [];
  for (let calls = 0; ; ) {
    const content = [...(await ask(history))];
    replies.push(content);
    const made = content.filter(({ type }) => type === "tool-call");
    if (made.length === 0) return replies;
    history.push({ kind: "reply", replyId: "rpl_1", model: "script", content: content.map(stored) });
    for (const _ of made) history.push(result(failing.includes(calls++)));
  }
}

function stored(part: ReplyContent) {
  return part.type === "tool-call" ? { ...part, callId: "cal_1" } : part;
}

const inputsOf = (replies: ReplyContent[][]) =>
  replies.map((content) => content.flatMap((part) => (part.type === "tool-call" ? [part.input] : [])));
const textOf = (content: readonly ReplyContent[] | undefined) =>
  (content ?? []).flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

describe("the script model", () => {
  it("does one step per reply and then sums up", async () => {
    const replies = await play("Please:\n$ npm test\nthen\n$ git diff", 0);
    expect(inputsOf(replies)).to.deep.equal([[{ command: "npm test" }], [{ command: "git diff" }], []]);
    expect(textOf(replies.at(-1))).to.equal("Done: 2 steps, 1 of them failed.");
  });

  it("puts steps that are marked with & into the same reply", async () => {
    const replies = await play("> read a\n& > read b\n> list");
    expect(inputsOf(replies)).to.deep.equal([[{ path: "a" }, { path: "b" }], [{}], []]);
  });

  it("says things together with the next step, and last things at the end", async () => {
    const replies = await play("> say First\n$ true\n> say Bye");
    expect(replies.map(textOf)).to.deep.equal(["First", "Bye\nDone: 1 step."]);
  });

  it("stops at the first failure when it is told to", async () => {
    const replies = await play("! stop on failure\n$ false\n$ echo never", 0);
    expect(inputsOf(replies)).to.deep.equal([[{ command: "false" }], []]);
    expect(textOf(replies.at(-1))).to.contain("Stopped");
  });

  it("explains its forms when a message has no step", async () => {
    expect(textOf(await ask([message("Fix the bug, please")]))).to.equal(FORMS);
  });

  it("drops what was left of the steps after Stop", async () => {
    const stopped: HistoryEntry = { kind: "ended", reason: "interrupted", text: undefined };
    const content = await ask([message("$ one\n$ two"), stopped, message("$ three")]);
    expect(inputsOf([[...content]])).to.deep.equal([[{ command: "three" }]]);
  });

  it("adds the steps of a message that is delivered later", async () => {
    const first = [...(await ask([message("$ one")]))];
    const replied: HistoryEntry = { kind: "reply", replyId: "rpl_1", model: "script", content: first.map(stored) };
    const next = await ask([message("$ one"), replied, result(), message("$ two")]);
    expect(inputsOf([[...next]])).to.deep.equal([[{ command: "two" }]]);
  });
});

describe("a script", () => {
  it("goes on after a trailing backslash and takes whole blocks", () => {
    expect(parseScript("$ a \\\n  b\n```bash\ncd x\nls\n```\n> background npm start")).to.deep.equal([
      { kind: "call", tool: "bash", input: { command: "a \\\n  b" }, parallel: false },
      { kind: "call", tool: "bash", input: { command: "cd x\nls" }, parallel: false },
      { kind: "call", tool: "bash", input: { command: "npm start", background: true }, parallel: false },
    ]);
  });

  it("takes the content of a file, and an edit's old and new text, from blocks", () => {
    const [write, edit] = parseScript("> write a.txt\n```\none\ntwo\n```\n> edit a.txt\n```\none\n```\n```\n1\n```");
    expect(write).to.deep.include({ tool: "write", input: { path: "a.txt", content: "one\ntwo\n" } });
    expect(edit).to.deep.include({ tool: "edit", input: { path: "a.txt", edits: [{ old: "one", new: "1" }] } });
  });

  it("says what is wrong with a step that it cannot do", () => {
    for (const text of ["> write a.txt", "> edit a.txt\n```\nold\n```", "> fly away", "> read"]) {
      expect(
        parseScript(text).map(({ kind }) => kind),
        text,
      ).to.deep.equal(["mistake"]);
    }
  });
});
