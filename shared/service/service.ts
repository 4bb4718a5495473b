import type { Log } from "./log.ts";

/** What every service's `start*` function resolves to. `close` refuses new work, finishes what is in hand, releases. */
export type RunningService = Readonly<{ name: string; close: () => Promise<void> }>;

export type Start<Dependencies> = (dependencies: Dependencies & { log: Log }) => Promise<RunningService>;
