import { z } from "zod";
import { COMMAND_BYTES_MAX, PATH_BYTES_MAX } from "#schemas/wire/message.ts";
import { commandResult, OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES } from "./command-result.ts";
import { defineTool, type Tool, type ToolPlace } from "./tool.ts";

export type CommandLimits = Readonly<{ commandMsDefault: number; commandMsMax: number }>;

export const EXCERPT = { headBytes: OUTPUT_HEAD_BYTES, tailBytes: OUTPUT_TAIL_BYTES };

/** `folder`: where commands start when the model names no other, an absolute path. */
export function bashTool({ commandMsDefault, commandMsMax }: CommandLimits, folder: string): Tool {
  const input = z.strictObject({
    command: z.string().min(1).max(COMMAND_BYTES_MAX).describe("Shell command; several lines are fine"),
    timeoutMs: z.int().min(1).max(commandMsMax).optional().describe(`Milliseconds; ${commandMsDefault} when absent`),
    background: z.boolean().optional().describe("Start it, return at once with a handle, and let it run"),
    cwd: z.string().min(1).max(PATH_BYTES_MAX).optional().describe(`Folder to run in; ${folder} when absent`),
  });
  const timeoutOf = ({ timeoutMs, background }: z.output<typeof input>) =>
    timeoutMs ?? (background ? commandMsMax : commandMsDefault);
  return defineTool({
    name: "bash",
    description:
      "Run a shell command in the sandbox. Standard input is closed and there is no terminal, editor or pager. Standard output and error come back together: the start and the end when there is much of it.",
    effect: "runs",
    input,
    inBackground: ({ background }) => background ?? false,
    takesMs: (call) => (call.background ? 0 : timeoutOf(call)),
    run: async (call, place: ToolPlace) => {
      const result = await place.link.exec(
        {
          callId: place.callId,
          command: call.command,
          cwd: call.cwd ?? folder,
          timeoutMs: timeoutOf(call),
          background: call.background ?? false,
          excerpt: EXCERPT,
        },
        { onOutput: place.onOutput },
      );
      return commandResult(result, place.callId);
    },
  });
}
