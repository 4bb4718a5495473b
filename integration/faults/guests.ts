// The processes of the sandboxes that this run's own provider started, found below it in the process table.
import { readFileSync } from "node:fs";
import { isAlive, signal, treeOf } from "../testing/processes/process-tree.ts";

export type Guest = Readonly<{ sandboxId: string; init: number; pistisd: number }>;

/** Sandboxes whose daemon runs. `provider`: the pid of the local provider. */
export function guestsOf(provider: number): Guest[] {
  const pids = treeOf(provider);
  const daemons = pids.filter((pid) => textOf(pid, "comm").trim() === "pistisd");
  return daemons.flatMap((pistisd): Guest[] => {
    const ancestors = ancestorsOf(pistisd, provider);
    const init = ancestors.find((pid) => sandboxIn(pid) !== undefined);
    const sandboxId = init === undefined ? undefined : sandboxIn(init);
    const first = ancestors.findLast((pid) => textOf(pid, "comm").trim() === "bwrap");
    return sandboxId === undefined || first === undefined ? [] : [{ sandboxId, init: first, pistisd }];
  });
}

export { isAlive, signal };

/** From the process up to, and without, `top`. */
function ancestorsOf(pid: number, top: number): number[] {
  const found: number[] = [];
  for (let at = pid; at > 1 && at !== top; at = parentOf(at)) found.push(at);
  return found;
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s*(\d+)/m.exec(textOf(pid, "status"))?.[1] ?? 0);
}

/** The provider marks the command line of what it starts with the sandbox's id. */
function sandboxIn(pid: number): string | undefined {
  return /\b(sbx_[0-9a-z]+)\b/.exec(textOf(pid, "cmdline"))?.[1];
}

function textOf(pid: number, file: "comm" | "status" | "cmdline"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    // It has ended.
    return "";
  }
}
