import { WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Operation } from "../channel/operation.ts";
import { type JobContext, runJob } from "../jobs/run-job.ts";
import { searchOutput } from "./search-job.ts";
import type { Workspace } from "./workspace.ts";

export type SearchContext = JobContext & Readonly<{ workspace: Workspace }>;

const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;

export function fileSearch(context: SearchContext): Operation<"fileSearch"> {
  return async (request, channel) => {
    checkPattern(request.pattern, request.ignoreCase);
    const { root } = context.workspace;
    const output = await runJob(context, {
      name: "search",
      argument: JSON.stringify({ root, request }),
      cwd: root,
      environment: {},
      timeoutMs: request.timeoutMs,
      outputBytesMax: OUTPUT_BYTES_MAX,
      signal: channel.signal,
    });
    if (output === undefined) throw searchTimedOut(request.timeoutMs);
    const result = searchOutput.parse(JSON.parse(output));
    if ("failure" in result) throw new Refusal(result.failure.code, result.failure.message);
    return result;
  };
}

function checkPattern(pattern: string, ignoreCase: boolean): void {
  try {
    new RegExp(pattern, ignoreCase ? "i" : "");
  } catch (cause) {
    throw new Refusal(WireCode.badPattern, `The pattern is no regular expression: ${String(cause)}`, { cause });
  }
}

function searchTimedOut(timeoutMs: number): Refusal {
  return new Refusal(WireCode.timedOut, `The search took longer than ${timeoutMs} ms`, {
    next: "Search a smaller folder, or use a simpler pattern without nested repetition",
  });
}
