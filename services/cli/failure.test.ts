import { expect } from "chai";
import { CommanderError } from "commander";
import { Refusal } from "#shared/errors/errors.ts";
import { EXIT_FAILED, EXIT_OK, EXIT_USAGE } from "./exit-codes.ts";
import { reportFailure } from "./failure.ts";
import { openTerminal } from "./terminal/terminal.ts";

function report(error: unknown, verbose = false): { text: string; exitCode: number } {
  let text = "";
  const terminal = openTerminal({ write: () => undefined }, { write: (part) => (text += part) }, {});
  const exitCode = reportFailure(terminal, error, verbose);
  return { text, exitCode };
}

describe("an error on the command line", () => {
  it("is one line what and one line next", () => {
    const { text, exitCode } = report(new Refusal("no_server", "No server runs", { next: "Start one" }));
    expect(text).to.equal("pistis: No server runs\n  next: Start one\n");
    expect(exitCode).to.equal(EXIT_FAILED);
  });

  it("tells its whole story, causes included, only when asked", () => {
    const error = new Refusal("no_server", "No server runs", { cause: new Error("ECONNREFUSED") });
    expect(report(error).text).to.not.contain("ECONNREFUSED");
    expect(report(error, true).text).to.contain("caused by: Error: ECONNREFUSED").and.to.contain("failure.test.ts");
  });

  it("owns up to an error of our own", () => {
    expect(report(new TypeError("x is undefined")).text)
      .to.contain("x is undefined")
      .and.to.contain("--verbose");
  });

  it("has an exit code of its own for a wrong command line, and none for help", () => {
    expect(report(new CommanderError(1, "commander.unknownOption", "unknown")).exitCode).to.equal(EXIT_USAGE);
    expect(report(new CommanderError(0, "commander.helpDisplayed", "help")).exitCode).to.equal(EXIT_OK);
  });
});
