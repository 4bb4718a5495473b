import { describeLedger } from "./ledger.contract.ts";
import { memoryLedger } from "./memory.ts";

describeLedger("memory", async () => {
  const { open, feed, parked } = memoryLedger();
  return { open, feed, consumer: "brain", parked: async () => parked, close: async () => undefined };
});
