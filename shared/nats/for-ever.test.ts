// What lets a service outlive a server that is away for ten minutes, or for a night: nothing counts its tries. The
// outage itself is in integration/away.int.test.ts, where seconds stand for minutes.
import { expect } from "chai";
import { Retryable } from "#shared/errors/errors.ts";
import { type Delivery, deliver, RETRY_WAIT_MS_MAX } from "#shared/ledger/delivery.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import { silentLog } from "#shared/service/log.ts";
import { causeOf, posted } from "#shared/testing/messages.ts";
import { FOR_EVER } from "./connection.ts";
import { remakeWaitMs } from "./ledger/pull.ts";

const TEN_MINUTES_MS = 600_000;

describe("a server that is away for ten minutes", () => {
  it("C140: is dialled again for ever", () => {
    expect(FOR_EVER).to.include({ reconnect: true, maxReconnectAttempts: -1, ignoreAuthErrorAbort: true });
    expect(FOR_EVER.reconnectTimeWait).to.be.lessThan(1_000);
  });

  it("C140: is asked for messages again after any number of failures, at most some seconds later", () => {
    for (const failures of [0, 1, 10, 1_000, 1_000_000]) expect(remakeWaitMs(failures)).to.be.within(1, 5_000);
  });

  it("C140: a batch that fails for what may work later is never given up, and waits a bounded time", async () => {
    expect(RETRY_WAIT_MS_MAX).to.be.lessThan(TEN_MINUTES_MS / 10);
    const message = await memoryLedger()
      .open("gateway")
      .append("ses_a", NEW_SESSION, [posted("a")], causeOf("ses_a"));
    const stop = new AbortController();
    const waits: number[] = [];
    const delivery: Delivery = {
      consumer: "projector-0",
      handle: async () => {
        if (waits.length === 2_000) stop.abort();
        throw new Retryable("database_failed", "It is away", { retryAfterMs: 0 });
      },
      park: async () => {
        throw new Error("It was given up");
      },
      log: { ...silentLog, warn: (fields) => void waits.push("waitMs" in fields ? Number(fields.waitMs) : -1) },
      stopping: stop.signal,
    };
    expect(await deliver([message], delivery)).to.equal(false);
    expect(waits.length).to.be.greaterThan(1_999);
  });
});
