import { type RequestOf, WireCode } from "#schemas/wire/message.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import type { Operation, RequestContext } from "../channel/operation.ts";
import { CALL_MARK } from "../commands/environment.ts";
import { sendSignal } from "../commands/processes.ts";
import type { System } from "../native/system.ts";
import { searchOutput } from "./search-job.ts";
import type { Workspace } from "./workspace.ts";

export type SearchContext = Readonly<{ system: System; workspace: Workspace; self: readonly string[] }>;

const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;

export function fileSearch(context: SearchContext): Operation<"fileSearch"> {
  return async (request, channel) => {
    checkPattern(request.pattern, request.ignoreCase);
    const output = await runInChild(context, request, channel);
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

async function runInChild(
  { system, workspace, self }: SearchContext,
  request: RequestOf<"fileSearch">,
  { signal }: RequestContext,
): Promise<string> {
  const ended = Promise.withResolvers<void>();
  const job = JSON.stringify({ root: workspace.root, request });
  const parts: Uint8Array[] = [];
  let size = 0;
  const spawned = system.spawn({
    arguments: [...self, "search", job],
    cwd: workspace.root,
    environment: { [CALL_MARK]: "search" },
    onExit: () => ended.resolve(),
    onOutput: (bytes) => {
      size += bytes.byteLength;
      if (size <= OUTPUT_BYTES_MAX) parts.push(bytes.slice());
    },
    onOutputEnd: () => undefined,
  });
  const kill = () => sendSignal(spawned.pid, "SIGKILL");
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    kill();
  }, request.timeoutMs);
  signal.addEventListener("abort", kill);
  await ended.promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", kill);
  spawned.readNow();
  spawned.closeOutput();
  if (timedOut) throw searchTimedOut(request.timeoutMs);
  if (signal.aborted) throw new Refusal("cancelled", "The search was withdrawn");
  if (size === 0) throw new Refusal("search_failed", "The search ended without a result: the sandbox may lack memory");
  if (size > OUTPUT_BYTES_MAX) throw new Fatal("search_output", "A search printed more than it may");
  return Buffer.concat(parts).toString("utf8");
}

function searchTimedOut(timeoutMs: number): Refusal {
  return new Refusal(WireCode.timedOut, `The search took longer than ${timeoutMs} ms`, {
    next: "Search a smaller folder, or use a simpler pattern without nested repetition",
  });
}
