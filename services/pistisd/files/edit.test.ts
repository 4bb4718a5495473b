import { expect } from "chai";
import { applyEdits } from "./edit.ts";

const edit = (old: string, put: string, all = false) => ({ old, new: put, all });
const apply = (content: string | Buffer, ...edits: Array<ReturnType<typeof edit>>) =>
  applyEdits(Buffer.from(content), edits, "f.txt");
const textAfter = (content: string, ...edits: Array<ReturnType<typeof edit>>) =>
  apply(content, ...edits).bytes.toString();

describe("applying edits", () => {
  it("replaces the one place that matches", () => {
    expect(textAfter("one two three", edit("two", "2"))).to.equal("one 2 three");
  });

  it("refuses a text that is not there, or there more than once", () => {
    expect(() => apply("one", edit("two", "2")))
      .to.throw()
      .with.property("code", "edit_no_match");
    expect(() => apply("one one", edit("one", "1")))
      .to.throw()
      .with.property("code", "edit_many_matches");
  });

  it("replaces all places when asked to, and counts them", () => {
    const { bytes, replacements } = apply("a a a", edit("a", "bb", true));
    expect(bytes.toString()).to.equal("bb bb bb");
    expect(replacements).to.equal(3);
  });

  it("applies edits in order, each on what the earlier ones made, or none of them", () => {
    expect(textAfter("a", edit("a", "b"), edit("b", "c"))).to.equal("c");
    expect(() => apply("a", edit("a", "b"), edit("a", "c")))
      .to.throw()
      .with.property("code", "edit_no_match");
  });

  it("takes the replacement as it is, not as a pattern", () => {
    expect(textAfter("x", edit("x", "$& $1 \\n"))).to.equal("$& $1 \\n");
  });

  it("C90: keeps CRLF line ends when the edit comes with LF", () => {
    expect(textAfter("a\r\nb\r\nc\r\n", edit("a\nb", "a\nnew\nb"))).to.equal("a\r\nnew\r\nb\r\nc\r\n");
    expect(textAfter("a\r\nb\r\n", edit("b", "b\nc"))).to.equal("a\r\nb\r\nc\r\n");
    expect(textAfter("a\r\nb\r\n", edit("a\r\nb", "x"))).to.equal("x\r\n");
  });

  it("C90: keeps CRLF also when all places are replaced", () => {
    expect(textAfter("x\ny\r\nx\r\ny\r\nx\r\ny\r\n", edit("x\ny", "z\nz", true))).to.equal(
      "x\ny\r\nz\r\nz\r\nz\r\nz\r\n",
    );
  });

  it("C90: leaves the lines of a file with mixed line ends as they are", () => {
    expect(textAfter("a\r\nb\r\nc\nd\r\n", edit("c\nd", "C\nd"))).to.equal("a\r\nb\r\nC\nd\r\n");
    expect(textAfter("a\nb\nc\r\n", edit("a\nb", "a\nB"))).to.equal("a\nB\nc\r\n");
    expect(textAfter("a\r\nb\r\nc\nd\n", edit("c\nd", "C\nd"))).to.equal("a\r\nb\r\nC\nd\n");
  });

  it("C90: keeps a byte order mark", () => {
    expect(textAfter("\ufeffone\n", edit("one", "two"))).to.equal("\ufefftwo\n");
  });

  for (const [name, swap, mark] of [
    ["little", false, [0xff, 0xfe]],
    ["big", true, [0xfe, 0xff]],
  ] as const) {
    it(`C90: edits UTF-16 in ${name}-endian order, aligned to its units`, () => {
      const encode = (text: string) => {
        const bytes = Buffer.from(text, "utf16le");
        return Buffer.concat([Buffer.from(mark), swap ? bytes.swap16() : bytes]);
      };
      const { bytes } = apply(encode("one\r\ntwo €\r\n"), edit("two €", "2\n3"));
      expect(bytes.equals(encode("one\r\n2\r\n3\r\n"))).to.equal(true);
    });
  }

  it("C90: leaves bytes that are no UTF-8 as they are, and edits Latin-1", () => {
    const { bytes } = apply(
      Buffer.from("caf\xe9 \x80 tea", "latin1"),
      edit("tea", "th\xe9"),
      edit("caf\xe9", "coffee"),
    );
    expect(bytes.toString("latin1")).to.equal("coffee \x80 th\xe9");
  });
});
