import { expect } from "chai";
import { Fatal, Refusal, Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { silentLog } from "#shared/service/log.ts";
import { appendMany } from "#shared/testing/messages.ts";
import { type Delivery, deliver, type Parked } from "./delivery.ts";
import { type LedgerMessage, VersionConflict } from "./ledger.ts";
import { memoryLedger } from "./memory.ts";

describe("delivery of a batch", () => {
  let batch: LedgerMessage[];
  let parked: Parked[];
  let stop: AbortController;
  beforeEach(async () => {
    batch = await appendMany(memoryLedger().open("gateway"), newId("session"), 3);
    parked = [];
    stop = new AbortController();
  });

  it("tries again after a Retryable or a conflict, until it is done", async () => {
    const failures: Error[] = [retryable(1), new VersionConflict("Someone was first"), retryable(1)];
    expect(await handOut(async () => throwIf(failures.shift()))).to.equal(true);
    expect(failures).to.deep.equal([]);
    expect(parked).to.deep.equal([]);
  });

  it("parks each message that fails alone, with code, reason and next step", async () => {
    const failure = new Fatal("broken", "It is broken", { next: "Mend it." });
    expect(await handOut(async () => throwIf(failure))).to.equal(true);
    const expected = { consumer: "brain-0", code: "broken", reason: "It is broken", next: "Mend it." };
    const named = batch.map(({ sequence, session }) => ({ ...expected, sequence, session }));
    expect(parked).to.deep.equal(named);
  });

  it("parks also what a handler refused or threw by mistake", async () => {
    for (const failure of [new Refusal("no", "No"), new TypeError("undefined is not a function")]) {
      await handOut(async () => throwIf(failure));
    }
    expect(new Set(parked.map(({ code }) => code))).to.deep.equal(new Set(["no", "internal"]));
  });

  it("stops waiting when the service stops and leaves the batch undone", async () => {
    const done = handOut(async () => {
      queueMicrotask(() => stop.abort());
      throw retryable(3_600_000);
    });
    expect(await done).to.equal(false);
    expect(parked).to.deep.equal([]);
  });

  it("tries to park until it is recorded", async () => {
    const failures: Error[] = [retryable(1), retryable(1)];
    const park = async (message: Parked) => {
      throwIf(failures.shift());
      parked.push(message);
    };
    expect(await handOut(async () => throwIf(new Fatal("broken", "It is broken")), park)).to.equal(true);
    expect(parked).to.have.length(3);
  });

  it("has nothing to do for an empty batch", async () => {
    batch = [];
    expect(await handOut(async () => throwIf(new Fatal("called", "The handler was called")))).to.equal(true);
  });

  function handOut(handle: Delivery["handle"], park: Delivery["park"] = record): Promise<boolean> {
    return deliver(batch, { consumer: "brain-0", handle, park, log: silentLog, stopping: stop.signal });
  }

  async function record(message: Parked): Promise<void> {
    parked.push(message);
  }
});

function retryable(retryAfterMs: number): Retryable {
  return new Retryable("not_now", "Try again", { retryAfterMs });
}

function throwIf(error: Error | undefined): void {
  if (error !== undefined) throw error;
}
