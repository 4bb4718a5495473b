import { expect } from "chai";
import type { LiveMessage } from "#schemas/live/live.ts";
import { coalescer, SESSION_CHARACTERS_MAX } from "./coalesce.ts";

const base = { epoch: 1, number: 99 };
const text = (words: string, replyId = "rpl_1"): LiveMessage => ({
  kind: "text-delta",
  ...base,
  turnId: "trn_1",
  replyId,
  text: words,
});
const output = (words: string, position: number, callId = "cal_1"): LiveMessage => ({
  kind: "output",
  ...base,
  callId,
  position,
  text: words,
  skippedBytes: 0,
});
const progress = (words: string): LiveMessage => ({ kind: "progress", ...base, step: "clone", text: words });
const large = "x".repeat(SESSION_CHARACTERS_MAX);

describe("gathered live messages", () => {
  it("are one message for the deltas of one reply and the chunks of one call", () => {
    const gathered = coalescer();
    for (const message of [text("a"), text("b"), output("c", 5), output("d", 6), text("e")]) {
      gathered.add("ses_1", message);
    }
    expect(gathered.take().map(({ message }) => message)).to.deep.equal([
      { ...text("ab"), number: 0 },
      { ...output("cd", 5), number: 1 },
      { ...text("e"), number: 2 },
    ]);
  });

  it("are not mixed between replies, calls, epochs, steps and sessions", () => {
    const gathered = coalescer();
    gathered.add("ses_1", text("a"));
    gathered.add("ses_1", text("b", "rpl_2"));
    gathered.add("ses_1", output("c", 0));
    gathered.add("ses_1", output("d", 0, "cal_2"));
    gathered.add("ses_1", { ...output("e", 1, "cal_2"), epoch: 2 });
    gathered.add("ses_1", progress("f"));
    gathered.add("ses_1", progress("g"));
    gathered.add("ses_2", text("h"));
    expect(gathered.take().map(({ session, message }) => `${session} ${message.text}`)).to.deep.equal([
      ..."abcdefg".split("").map((letter) => `ses_1 ${letter}`),
      "ses_2 h",
    ]);
  });

  it("are numbered through per session, and anew in a new epoch", () => {
    const gathered = coalescer();
    const numbers = () => gathered.take().map(({ message }) => message.number);
    gathered.add("ses_1", text("a"));
    gathered.add("ses_2", text("b"));
    expect(numbers()).to.deep.equal([0, 0]);
    gathered.add("ses_1", text("c"));
    gathered.add("ses_1", { ...text("d"), epoch: 2 });
    gathered.add("ses_1", { ...text("e", "rpl_2"), epoch: 2 });
    expect(numbers()).to.deep.equal([1, 0, 1]);
    expect(gathered.take()).to.deep.equal([]);
  });

  it("leave a gap in the numbers, and say how many bytes of output are missing, when a session is over its cap", () => {
    const gathered = coalescer();
    gathered.add("ses_1", output(large, 0));
    gathered.add("ses_1", output("é", large.length));
    gathered.add("ses_1", output("zz", large.length + 2));
    gathered.add("ses_2", output("y", 0, "cal_2"));
    expect(gathered.take().map(({ message }) => message.number)).to.deep.equal([0, 0]);
    gathered.add("ses_1", output("a", large.length + 4));
    gathered.add("ses_1", output("b", large.length + 5));
    expect(gathered.take().map(({ message }) => message)).to.deep.equal([
      { ...output("ab", large.length + 4), number: 3, skippedBytes: 4 },
    ]);
  });

  it("hold no more than the cap of each session however much is added", () => {
    const gathered = coalescer();
    for (let index = 0; index < 1_000; index++) gathered.add("ses_1", text(large.slice(0, 1_000)));
    const held = gathered.take().reduce((characters, { message }) => characters + message.text.length, 0);
    expect(held).to.be.at.most(SESSION_CHARACTERS_MAX);
  });
});
