import { expect } from "chai";
import { openTerminal } from "./terminal.ts";

const stream = (isTTY: boolean) => ({ write: () => undefined, isTTY });

describe("the terminal", () => {
  it("colours for a person, and is plain elsewhere or when NO_COLOR is set", () => {
    const painted = (isTTY: boolean, environment: object) =>
      openTerminal(stream(isTTY), stream(isTTY), { ...environment }).paint("red", "x");
    expect(painted(true, {})).to.equal("\u001b[31mx\u001b[39m");
    expect(painted(false, {})).to.equal("x");
    expect(painted(true, { NO_COLOR: "1" })).to.equal("x");
    expect(painted(true, { TERM: "dumb" })).to.equal("x");
  });
});
