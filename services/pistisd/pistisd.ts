// The daemon inside the sandbox: it runs commands and works on files, and dials out to the relay. It holds no
// secret but its pass at the relay.
import { Refusal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import type { RunningService } from "#shared/service/service.ts";
import { openChannels } from "./channel/channels.ts";
import { openEpochFence } from "./channel/epoch-fence.ts";
import { Calls } from "./commands/calls.ts";
import { commandOperations } from "./commands/operations.ts";
import { keepWayOut } from "./egress/way-out.ts";
import { fileOperations } from "./files/operations.ts";
import { openWorkspace } from "./files/workspace.ts";
import type { System } from "./native/system.ts";
import { probe } from "./probe/operation.ts";
import { parseRelayAddress } from "./relay/address.ts";
import { keepConnected } from "./relay/connection.ts";
import { join } from "./relay/join.ts";
import { openCallRecords } from "./state/call-records.ts";
import { openState, type State } from "./state/state.ts";

export const VERSION = "0.1.0";

export type PistisdDependencies = Readonly<{
  relay: string;
  joinToken: string | undefined;
  stateDirectory: string;
  root: string;
  shell: string;
  /** Whether there is a way to the network, over the relay. */
  wayOut: boolean;
  environment: Readonly<Record<string, string>>;
  system: System;
  /** How to start this very program again. */
  self: readonly string[];
  log: Log;
}>;

/** Why the daemon is not wanted any more; a pass that is refused never becomes good again. */
export type Dismissal = "refused" | "replaced" | "stopped";

export type Pistisd = RunningService & Readonly<{ dismissed: Promise<Dismissal> }>;

/** Throws Refusal `not_joined` when there is neither a pass nor a join token that works. */
export async function startPistisd(dependencies: PistisdDependencies): Promise<Pistisd> {
  const { log, system } = dependencies;
  const state = openState(dependencies.stateDirectory);
  const records = openCallRecords(dependencies.stateDirectory, state.reserve);
  const workspace = openWorkspace(dependencies.root);
  const { shell, environment, stateDirectory, self } = dependencies;
  const calls = new Calls({ system, records, stateDirectory, instance: state.instance, shell, environment });
  const openFileCalls = new Map<string, Promise<void>>();
  const { recordsComplete } = state;
  const relay = { address: parseRelayAddress(dependencies.relay), pass: state.pass };
  const operations = {
    probe: probe({ system, self, environment, root: workspace.root, relay }),
    ...commandOperations({ calls, records, recordsComplete, workspace, openFileCalls }),
    ...fileOperations({ system, workspace, self, records, openFileCalls }),
  };
  const stopping = new AbortController();
  const fence = openEpochFence(state);
  const context = { operations, fence, bootId: state.bootId, version: VERSION, log };
  const wayOut = dependencies.wayOut ? keepWayOut({ ...relay, signal: stopping.signal, log }) : undefined;
  const dismissed = stayConnected(dependencies, state, stopping.signal, (outlet) =>
    openChannels({ ...context, outlet }),
  );
  return {
    name: "pistisd",
    dismissed,
    close: async () => {
      stopping.abort();
      await Promise.all([calls.close(), wayOut]);
      await dismissed;
    },
  };
}

async function stayConnected(
  { relay, joinToken, log }: PistisdDependencies,
  state: State,
  signal: AbortSignal,
  onConnection: Parameters<typeof keepConnected>[0]["onConnection"],
): Promise<Dismissal> {
  const address = parseRelayAddress(relay);
  try {
    if (joinToken !== undefined) await join({ address, token: joinToken, state, signal, log });
  } catch (error) {
    if (signal.aborted) return "stopped";
    throw error;
  }
  const pass = state.pass();
  if (pass === null) throw notJoined();
  return keepConnected({ address, pass, bootId: state.bootId, onConnection, signal, log });
}

function notJoined(): Refusal {
  return new Refusal("not_joined", "There is no pass, and no join token that the relay takes", {
    next: "Start the sandbox again with a new join token; one works once and for at most ten minutes",
  });
}
