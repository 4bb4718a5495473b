import { existsSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** Resolves when a condition holds. For what announces no event, such as the end of another's process. */
export async function whenever(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(5);
}

export function whenGone(pid: number): Promise<void> {
  return whenever(() => !existsSync(`/proc/${pid}`));
}
