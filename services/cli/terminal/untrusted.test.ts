import { expect } from "chai";
import { shown, shownLine } from "./untrusted.ts";

describe("text from a sandbox on a terminal", () => {
  it("keeps colours for a terminal and drops them for everything else", () => {
    expect(shown("\u001b[31mred\u001b[0m plain", true)).to.equal("\u001b[31mred\u001b[0m plain\u001b[0m");
    expect(shown("\u001b[31mred\u001b[0m plain")).to.equal("red plain");
  });

  it("cannot move the cursor, set the title, write the clipboard or ring", () => {
    const hostile = "\u001b[2J\u001b[1;1H\u001b]0;title\u0007\u001b]52;c;aGk=\u001b\\\u009b2Ja\u0008b\u007f";
    for (const steering of ["\u001b", "\u0007", "\u0008", "\u007f", "\u009b"]) {
      expect(shown(hostile)).to.not.contain(steering);
      expect(shown(hostile, true)).to.not.contain(steering);
    }
    expect(shown("\u001b[2J")).to.equal("␛[2J");
  });

  it("cannot overwrite a line or turn the writing direction", () => {
    expect(shown("10%\r20%\r\ndone")).to.equal("10%\n20%\ndone");
    expect(shown("a\u202eb\u2066c\u2028d")).to.equal("a�b�c�d");
  });

  it("is one line of bounded length where one line is wanted", () => {
    expect(shownLine(" a\n\tb \u001b[1mc ")).to.equal("a b c");
    expect(shownLine("x".repeat(300), 10)).to.equal(`${"x".repeat(9)}…`);
  });
});
