// The real definition of Ledger and LedgerFeed: every implementation runs this file. A behaviour that is not
// here is not promised.
import type { Writer } from "#schemas/ledger/event.ts";
import { describeAppend } from "./append.contract.ts";
import type { Parked } from "./delivery.ts";
import { describeFollow, describeReact } from "./feed.contract.ts";
import type { Ledger, LedgerFeed } from "./ledger.ts";

/** One fresh, empty ledger. `parked` resolves with what its consumers gave up so far. */
export type LedgerUnderTest = Readonly<{
  open: (writer: Writer) => Ledger;
  feed: LedgerFeed;
  /** Name of a durable consumer that set-up made. */
  consumer: string;
  parked: () => Promise<readonly Parked[]>;
  close: () => Promise<void>;
}>;

export function describeLedger(name: string, open: () => Promise<LedgerUnderTest>): void {
  describe(`ledger: ${name}`, () => {
    let ledger: LedgerUnderTest;
    beforeEach(async () => {
      ledger = await open();
    });
    afterEach(() => ledger.close());

    describe("append and read", () => describeAppend(() => ledger));
    describe("follow", () => describeFollow(() => ledger));
    describe("react", () => describeReact(() => ledger));
  });
}
