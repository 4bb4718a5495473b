import { setTimeout as delay } from "node:timers/promises";
import { KILL_CHECK_MS, KILL_PATIENCE_MS } from "../limits.ts";
import { type Family, membersOf, sendSignal } from "./processes.ts";

/** Sends a signal to all of a command. False: nothing of it was there. */
export function signalFamily(family: Family, signal: NodeJS.Signals): boolean {
  // The group first: the kernel reaches all of it at once, also while it forks.
  const group = sendSignal(-family.leader, signal);
  const others = membersOf(family).filter((process) => process.group !== family.leader);
  for (const process of others) sendSignal(process.pid, signal);
  return group || others.length > 0;
}

/** Asks a command to end, then makes it end. Resolves when nothing of it is left, or patience is over. */
export async function endFamily(family: Family, graceMs: number): Promise<void> {
  if (graceMs > 0) {
    signalFamily(family, "SIGTERM");
    signalFamily(family, "SIGCONT");
    if (await isGoneWithin(family, graceMs, () => undefined)) return;
  }
  await isGoneWithin(family, KILL_PATIENCE_MS, () => killAll(family));
}

async function isGoneWithin(family: Family, ms: number, again: () => void): Promise<boolean> {
  const deadline = Date.now() + ms;
  for (;;) {
    again();
    if (membersOf(family).length === 0) return true;
    if (Date.now() >= deadline) return false;
    await delay(KILL_CHECK_MS);
  }
}

const FREEZE_ROUNDS_MAX = 50;

/** Freezes before it kills, so that a family that forks all the time cannot outrun the list of its members. */
function killAll(family: Family): void {
  sendSignal(-family.leader, "SIGKILL");
  const frozen = new Set<number>();
  let grown = true;
  for (let round = 0; grown && round < FREEZE_ROUNDS_MAX; round++) {
    grown = false;
    for (const { pid } of membersOf(family)) {
      if (frozen.has(pid)) continue;
      frozen.add(pid);
      grown = sendSignal(pid, "SIGSTOP") || grown;
    }
  }
  for (const pid of frozen) sendSignal(pid, "SIGKILL");
}
