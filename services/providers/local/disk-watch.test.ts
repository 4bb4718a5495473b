import { tmpdir } from "node:os";
import { expect } from "chai";
import { MEASUREMENTS_FAILED_MAX, watchDisk } from "./disk-watch.ts";

describe("the watch of a local sandbox's disk", () => {
  /** Each measurement gives the next of `answers`, the last one again and again. Resolves with what was over the limit. */
  async function watch(...answers: (number | Error)[]): Promise<number | undefined> {
    let over: number | undefined;
    let next = 0;
    await watchDisk({
      folder: tmpdir(),
      limitMiB: 100,
      onOver: (usedMiB) => {
        over = usedMiB;
      },
      signal: new AbortController().signal,
      lookEveryMs: 1,
      measure: async () => {
        const answer = answers[Math.min(next++, answers.length - 1)];
        if (answer instanceof Error) throw answer;
        return answer ?? 0;
      },
    });
    return over;
  }
  const broken = new Error("du was killed");

  it("measures again after measurements that failed, and allows nothing more for them", async () => {
    const failures = Array.from({ length: MEASUREMENTS_FAILED_MAX - 1 }, () => broken);
    expect(await watch(...failures, 101)).to.equal(101);
  });

  it("says when it cannot be measured at all", async () => {
    const failure = await watch(broken).catch((error: unknown) => error);
    expect(failure).to.equal(broken);
  });
});
