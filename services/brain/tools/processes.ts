// Commands that are not waited for: list them, read their output, end them (C78).
import { z } from "zod";
import type { AnswerOf } from "#schemas/wire/message.ts";
import { inWords } from "./command-result.ts";
import { clipped, textOf } from "./excerpt.ts";
import { defineTool, type Tool, type ToolPlace, type ToolResult } from "./tool.ts";

export const OUTPUT_READ_BYTES_MAX = 48 * 1024;
export const KILL_GRACE_MS = 2_000;
const COMMAND_CHARACTERS_MAX = 200;
const LISTED_MAX = 100;

type Process = AnswerOf<"processes">["processes"][number];

const handle = z
  .string()
  .regex(/^cal_[0-9a-z]{1,64}$/)
  .describe("Handle of a command, as its result named it");

export function bashListTool(): Tool {
  return defineTool({
    name: "bash_list",
    description: "List the commands of this sandbox that run or ran: handle, state, bytes of output.",
    effect: "reads",
    input: z.strictObject({}),
    run: async (_input, { link }) => {
      const { processes } = await link.processes();
      const lines = processes
        .slice(-LISTED_MAX)
        .map(
          (process) =>
            `${process.callId}  ${stateOf(process)}  ${process.outputBytes} bytes  ${clipped(process.command, COMMAND_CHARACTERS_MAX)}`,
        );
      return ok(lines.length === 0 ? "No commands." : lines.join("\n"));
    },
  });
}

export function bashOutputTool(): Tool {
  const input = z.strictObject({
    handle,
    from: z.int().min(0).optional().describe("Byte to read from; the last part of the output when absent"),
    length: z.int().min(1).max(OUTPUT_READ_BYTES_MAX).optional().describe("Bytes to read at most"),
  });
  return defineTool({
    name: "bash_output",
    description: "Read any part of a command's output, also while it runs, and see whether it has ended.",
    effect: "reads",
    input,
    run: readOutput,
  });

  async function readOutput(asked: z.output<typeof input>, { link }: ToolPlace): Promise<ToolResult> {
    const length = asked.length ?? OUTPUT_READ_BYTES_MAX;
    const process = (await link.processes()).processes.find(({ callId }) => callId === asked.handle);
    const total = process?.outputBytes ?? 0;
    const from = asked.from ?? Math.max(0, total - length);
    const bytes = await collected(link.readOutput(asked.handle, from, length));
    const state = process === undefined ? "Its state is not known any more." : stateOf(process);
    const range = `Bytes ${from} to ${from + bytes.byteLength} of ${Math.max(total, from + bytes.byteLength)}.`;
    return ok(`${textOf(bytes)}\n[${range} ${state}]`);
  }
}

export function bashKillTool(): Tool {
  const signal = z.enum(["SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2"]);
  return defineTool({
    name: "bash_kill",
    description: "End a command and all that it started, or send its processes one signal.",
    effect: "signals",
    input: z.strictObject({
      handle,
      signal: signal.optional().describe("Only send this signal; without it the command is ended for certain"),
    }),
    run: async (asked, { link }) => {
      if (asked.signal !== undefined) {
        const { sent } = await link.signal({ callId: asked.handle, signal: asked.signal });
        return ok(sent ? `${asked.signal} was sent.` : "Nothing of it was running.");
      }
      const { stopped } = await link.stop(asked.handle, KILL_GRACE_MS);
      return ok(stopped ? "It was ended." : "Nothing of it was running.");
    },
  });
}

function stateOf({ running, outcome, callId }: Process): string {
  if (running) return "Running.";
  return outcome === undefined ? "Ended." : inWords(outcome, callId);
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts);
}

function ok(text: string): ToolResult {
  return { outcome: { status: "ok" }, text };
}
