// How requests end that got no answer of their own kind.
import { Refusal } from "#shared/errors/errors.ts";
import type { Boot } from "../connection.ts";
import { CallNotRun, SandboxLost } from "../link.ts";

export const refusalOf = ({ code, message, next }: { code: string; message: string; next?: string | undefined }) =>
  new Refusal(code, message, next === undefined ? {} : { next });

/** After the sandbox was made anew nobody can answer for the old one. */
export function replaced(before: Boot | undefined, now: Boot): SandboxLost | undefined {
  if (before === undefined || before.generation === now.generation) return undefined;
  return new SandboxLost("restarted", "The sandbox was replaced while the request was under way");
}

/** What a call's caller is told when waiting ends without an answer. */
export function lostCall(error: Error, sent: boolean): Error {
  if (error instanceof Refusal || error instanceof CallNotRun) return error;
  if (!sent) return new CallNotRun(`The call was never sent: ${error.message}`, { cause: error });
  if (error instanceof SandboxLost) return error;
  return new SandboxLost("unreachable", `Nobody can say how the call ended: ${error.message}`, { cause: error });
}
