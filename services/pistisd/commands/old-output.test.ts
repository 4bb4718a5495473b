import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { dropOldOutput } from "./old-output.ts";

const PIECE_BYTES = 64 * 1024;

describe("the kept output of all commands", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pistis-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Writes one piece for each name, the oldest first. */
  function written(...names: string[]): void {
    for (const [age, name] of names.entries()) {
      writeFileSync(join(folder, name), Buffer.alloc(PIECE_BYTES, "x"));
      utimesSync(join(folder, name), age, age);
    }
  }

  function keptAfter(ended: string, running: string[], piecesMax: number): string[] {
    dropOldOutput(folder, { running: new Set(running), ended, totalBytesMax: piecesMax * PIECE_BYTES });
    return readdirSync(folder).sort();
  }

  it("stays within its limit: the oldest goes first", () => {
    written("cal_1", "cal_2", "cal_3");
    expect(keptAfter("cal_3", [], 2)).to.deep.equal(["cal_2", "cal_3"]);
  });

  it("keeps that of the command that has just ended, however old and large it is", () => {
    written("cal_1", "cal_2", "cal_3");
    expect(keptAfter("cal_1", [], 0)).to.deep.equal(["cal_1"]);
  });

  it("drops nothing for what running commands hold, and nothing of theirs", () => {
    written("cal_1", "cal_1.sh", "cal_2", "cal_3", "cal_4");
    expect(keptAfter("cal_4", ["cal_1", "cal_3"], 2)).to.deep.equal(["cal_1", "cal_1.sh", "cal_2", "cal_3", "cal_4"]);
  });
});
