import { dockerBench, dockerSixtyBench } from "./docker.ts";
import { floodBench } from "./flood.ts";
import { idleMemoryBench } from "./idle-memory.ts";
import { idleSessionsBench } from "./idle-sessions.ts";
import { ledgerAppendBench } from "./ledger-append.ts";
import { ledgerThroughputBench } from "./ledger-throughput.ts";
import { longSessionBench } from "./long-session.ts";
import { manySessionsBench, reattachBench } from "./many-sandboxes.ts";
import { networkProbeBench } from "./network-probe.ts";
import type { Row } from "./row.ts";
import { largeOutputBench, roundTripBench, sandboxStartBench } from "./sandbox-link.ts";
import { takeOverBench } from "./take-over.ts";
import { warmPoolBench } from "./warm-pool.ts";
import { warmTurnBench } from "./warm-turn.ts";

export type Bench = Readonly<{ name: string; run: () => Promise<Row[]> }>;

export const benches: readonly Bench[] = [
  { name: "warm-turn", run: warmTurnBench },
  { name: "command-round-trip", run: roundTripBench },
  { name: "large-output", run: largeOutputBench },
  { name: "ledger-append", run: ledgerAppendBench },
  { name: "ledger-throughput", run: ledgerThroughputBench },
  { name: "sandbox-start", run: sandboxStartBench },
  { name: "docker", run: dockerBench },
  { name: "docker-sixty", run: dockerSixtyBench },
  { name: "flood", run: floodBench },
  { name: "network-probe", run: networkProbeBench },
  { name: "warm-pool", run: warmPoolBench },
  { name: "long-session", run: longSessionBench },
  { name: "take-over", run: takeOverBench },
  { name: "relay-restart", run: reattachBench },
  { name: "many-sessions", run: manySessionsBench },
  { name: "idle-sessions", run: idleSessionsBench },
  { name: "idle-memory", run: idleMemoryBench },
];
