import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { RESERVE_BYTES } from "../limits.ts";
import { openCallRecords } from "./call-records.ts";
import { openReserve } from "./reserve.ts";
import { openState } from "./state.ts";

const COMMAND = { is: "command", command: "true", at: "2026-01-01T00:00:00.000Z" } as const;
const FINISHED = {
  is: "finished",
  outcome: { status: "exited", exitCode: 0 },
  ...{ outputBytes: 0, durationMs: 1, leftRunning: false },
} as const;

const recordsIn = (folder: string) => openCallRecords(folder, openReserve(folder));

describe("what outlives the daemon", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pistis-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("is pass, epoch and instance; a boot is new every time", () => {
    const first = openState(folder);
    first.keepPass("p");
    first.keepEpoch(7);
    const second = openState(folder);
    expect([second.pass(), second.epoch(), second.instance]).to.deep.equal(["p", 7, first.instance]);
    expect(second.bootId).not.to.equal(first.bootId);
    expect(statSync(join(folder, "state.json")).mode & 0o777).to.equal(0o600);
  });

  it("remembers that the machine went down, since when an unknown call may have run", () => {
    expect(openState(folder).recordsComplete).to.equal(true);
    const file = join(folder, "state.json");
    const kept: unknown = JSON.parse(readFileSync(file, "utf8"));
    writeFileSync(file, JSON.stringify({ ...Object(kept), hostBoot: "another" }));
    expect(openState(folder).recordsComplete).to.equal(false);
    expect(openState(folder).recordsComplete).to.equal(false);
  });

  it("I2: is a record per call id, which begins once", () => {
    const records = recordsIn(folder);
    records.begin("cal_1", COMMAND);
    expect(records.look("cal_1")).to.deep.equal({ status: "open" });
    expect(() => records.begin("cal_1", COMMAND))
      .to.throw()
      .with.property("code", "call_seen");
    expect(() => recordsIn(folder).begin("cal_1", COMMAND))
      .to.throw()
      .with.property("code", "call_seen");
    records.end("cal_1", FINISHED);
    expect(recordsIn(folder).look("cal_1")).to.deep.equal({ status: "ended", ending: FINISHED });
  });

  it("I5: is a bar on a call that was asked about before it came", () => {
    const records = recordsIn(folder);
    expect(records.look("cal_1")).to.deep.equal({ status: "never-seen" });
    records.bar("cal_1");
    records.bar("cal_1");
    expect(() => records.begin("cal_1", COMMAND))
      .to.throw()
      .with.property("code", "call_barred");
  });

  it("counts a line that was cut off as never written", () => {
    const records = recordsIn(folder);
    records.begin("cal_1", COMMAND);
    appendFileSync(join(records.directory, "cal_1"), JSON.stringify(FINISHED).slice(0, 20));
    expect(records.look("cal_1")).to.deep.equal({ status: "open" });
    expect(readdirSync(records.directory)).to.deep.equal(["cal_1"]);
  });

  it("has room of its own on a full disk, and takes it again when there is more", () => {
    const reserve = openReserve(folder);
    const path = join(folder, "reserve");
    const disk = { isFull: true };
    const write = () => {
      if (disk.isFull && existsSync(path))
        throw Object.assign(new Error("No space left on device"), { code: "ENOSPC" });
      return "written";
    };
    expect(reserve.spend(write)).to.equal("written");
    expect(existsSync(path)).to.equal(false);
    disk.isFull = false;
    expect(reserve.spend(write)).to.equal("written");
    expect(statSync(path).size).to.equal(RESERVE_BYTES);
    const refused = () => {
      throw Object.assign(new Error("Permission denied"), { code: "EACCES" });
    };
    expect(() => reserve.spend(refused)).to.throw("Permission denied");
    expect(existsSync(path)).to.equal(true);
  });
});
