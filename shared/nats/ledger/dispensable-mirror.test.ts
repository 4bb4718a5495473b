import { expect } from "chai";
import type { MirrorReader } from "#shared/ledger/mirror.ts";
import { silentLog } from "#shared/service/log.ts";
import { dispensableMirror, MIRROR_REST_MS } from "./dispensable-mirror.ts";

const row = { sequence: 1, bytes: new Uint8Array() };

describe("a mirror that may be away", () => {
  let asked: number;
  let answers: boolean;
  let now: number;
  let warned: number;
  let mirror: MirrorReader;

  beforeEach(() => {
    [asked, answers, now, warned] = [0, true, 0, 0];
    const real = {
      read: async () => {
        asked++;
        if (!answers) throw new Error("connection refused");
        return [row];
      },
    };
    mirror = dispensableMirror(real, { ...silentLog, warn: () => warned++ }, () => now);
  });

  it("is read while it answers", async () => {
    expect(await mirror.read("ses_a", 0)).to.deep.equal([row]);
  });

  it("reads as empty while it is away, which is said once, and is left alone for a while", async () => {
    answers = false;
    expect(await mirror.read("ses_a", 0)).to.deep.equal([]);
    expect(await mirror.read("ses_a", 0)).to.deep.equal([]);
    now = MIRROR_REST_MS;
    expect(await mirror.read("ses_a", 0)).to.deep.equal([]);
    expect({ asked, warned }).to.deep.equal({ asked: 2, warned: 1 });
  });

  it("is read again once it is back, for ever", async () => {
    answers = false;
    await mirror.read("ses_a", 0);
    answers = true;
    now = MIRROR_REST_MS;
    expect(await mirror.read("ses_a", 0)).to.deep.equal([row]);
    answers = false;
    await mirror.read("ses_a", 0);
    expect(warned).to.equal(2);
  });

  it("need not be there at all", async () => {
    expect(await dispensableMirror(undefined, silentLog).read("ses_a", 0)).to.deep.equal([]);
  });
});
