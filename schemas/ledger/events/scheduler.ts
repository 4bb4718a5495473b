import { z } from "zod";
import { egressFindings } from "#schemas/network/egress-finding.ts";
import { egressRequest, egressUntold } from "#schemas/network/egress-request.ts";
import { sandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { sandboxSpec } from "#schemas/provider/task.ts";
import { type EventsOf, entriesOf } from "../entry.ts";
import { count, failure, id, reportPlace } from "../parts.ts";
import { liftSandboxCreateRequestedV1 } from "../versions/sandbox-create-requested.v1.ts";
import { liftSandboxJoinedV1 } from "../versions/sandbox-joined.v1.ts";

const entry = entriesOf("scheduler");

const sandbox = {
  sandboxId: id,
  generation: z.number().int().positive().describe("Rises each time the session's sandbox is made anew"),
};
const asked = { ...sandbox, provider: z.string().max(50), taskId: id };

export const schedulerEvents = {
  SandboxCreateRequested: {
    ...entry("A provider was asked to make a sandbox", z.strictObject({ ...asked, network: sandboxNetwork })),
    version: 2,
    older: { 1: liftSandboxCreateRequestedV1 },
  },
  SandboxRestartRequested: entry(
    "A provider was asked to start a stopped sandbox with its disk",
    z.strictObject(asked),
  ),
  SandboxInspectRequested: entry("A provider was asked for the true state of a sandbox", z.strictObject(asked)),
  SandboxDeleteRequested: entry("A provider was asked to delete a sandbox for good", z.strictObject(asked)),
  SandboxCreated: entry("The provider made the sandbox", z.strictObject({ ...sandbox, durationMs: count })),
  SandboxRestarted: entry("The provider started the sandbox again", z.strictObject({ ...sandbox, durationMs: count })),
  SandboxJoined: {
    ...entry(
      "pistisd in the sandbox connected for the first time since it was started",
      z.strictObject({
        ...sandbox,
        bootId: z.string().max(100).describe("New at every start of pistisd"),
        report: reportPlace,
      }),
    ),
    version: 2,
    older: { 1: liftSandboxJoinedV1 },
  },
  SandboxStopped: entry(
    "The sandbox's processes are gone, its disk is kept",
    z.strictObject({ ...sandbox, reason: z.string().max(500) }),
  ),
  SandboxMissing: entry("The provider says that the sandbox is gone", z.strictObject(sandbox)),
  SandboxDestroyed: entry("The sandbox was deleted for good", z.strictObject(sandbox)),
  EgressLogged: entry(
    "The sandbox asked for a host through the egress service",
    z.strictObject({ ...sandbox, batch: id, ...egressRequest.shape }),
  ),
  EgressSummarised: entry(
    "The sandbox asked for more in a minute than is told one by one; this is the rest",
    z.strictObject({ ...sandbox, batch: id, ...egressUntold.shape }),
  ),
  EgressProbed: entry(
    "The network of the sandbox was probed; no command starts in it before one that passed",
    z.strictObject({
      ...sandbox,
      passed: z.boolean(),
      findings: egressFindings.describe("From a sandbox that may lie, but for what the server heard itself"),
      durationMs: count,
    }),
  ),
  SandboxFailed: entry("The provider could not do what it was asked", z.strictObject({ ...sandbox, failure })),
  PoolMemberAdded: entry(
    "A sandbox that belongs to no session yet is wanted for the warm pool",
    z.strictObject({ provider: z.string().max(50), spec: sandboxSpec, addedAt: z.iso.datetime() }),
  ),
  PoolMemberClaimed: entry("The warm sandbox goes to this session and to no other", z.strictObject({ claimedBy: id })),
  PoolMemberRetired: entry(
    "The warm sandbox goes to no session any more and is deleted",
    z.strictObject({ reason: z.string().max(200) }),
  ),
};

export type SchedulerEvent = EventsOf<typeof schedulerEvents>;
