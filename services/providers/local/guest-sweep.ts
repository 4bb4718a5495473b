// What an earlier process of this install left running: found by the mark in its command line and by its control
// group, whatever the files say. bubblewrap dies with its parent, so there is hardly ever any.
import { groupedSandboxes, processesInGroups, removeGroups } from "./cgroups.ts";
import type { Local } from "./local-provider.ts";
import { killProcess, processesWithArgument, untilGone } from "./process-identity.ts";

/** Resolves when nothing of this install's sandboxes runs any more. */
export async function sweepGuests(local: Local): Promise<void> {
  const grouped = await groupedSandboxes(local.cgroups);
  const inGroups = await Promise.all(grouped.map((sandboxId) => processesInGroups(local.cgroups, sandboxId)));
  const marked = await processesWithArgument((argument) => argument.startsWith(`${local.label}-sbx_`));
  const leftovers = [...inGroups.flat(), ...marked];
  if (leftovers.length > 0) local.log.warn({ processes: leftovers.length }, "An earlier run left sandboxes running");
  for (const leftover of leftovers) await killProcess(leftover);
  for (const leftover of leftovers) await untilGone(leftover);
  for (const sandboxId of grouped) await removeGroups(local.cgroups, sandboxId);
}
