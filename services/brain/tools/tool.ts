// One tool that the model may call. Its input is parsed by its own zod schema, from which the JSON Schema that the
// model is given is made, so that the two cannot differ.
import { z } from "zod";
import type { ToolOutcome } from "#schemas/ledger/events/brain.ts";
import type { OutputChunk, SandboxLink } from "#shared/sandbox-link/link.ts";
import type { ToolDescription } from "../models/model.ts";
import type { Json } from "../session/history.ts";

/**
 * What a call leaves behind: `reads` nothing, so it may run beside others; `writes` a file; `runs` a process. Of
 * those two pistisd knows by the call's id whether they happened. Of what `signals` a process nobody does.
 */
export type Effect = "reads" | "writes" | "runs" | "signals";

export type ToolPlace = Readonly<{
  link: SandboxLink;
  callId: string;
  onOutput: (chunk: OutputChunk) => void | Promise<void>;
}>;

export type ToolResult = Readonly<{
  outcome: ToolOutcome;
  /** What the model is given. */
  text: string;
  output?: { bytes: number; omittedBytes: number };
}>;

export type Accepted =
  | Readonly<{
      status: "accepted";
      /** The call ends while what it started goes on, and so does the output. */
      inBackground: boolean;
      /** Milliseconds that the call may take by its own terms, before a sandbox is slow to answer. */
      takesMs: number;
      run: (place: ToolPlace) => Promise<ToolResult>;
    }>
  | Readonly<{ status: "refused"; message: string }>;

export type Tool = Readonly<{
  description: ToolDescription;
  effect: Effect;
  accept: (input: Json) => Accepted;
}>;

export type ToolDefinition<Input extends z.ZodType> = Readonly<{
  name: string;
  description: string;
  effect: Effect;
  input: Input;
  inBackground?: (input: z.output<Input>) => boolean;
  takesMs?: (input: z.output<Input>) => number;
  run: (input: z.output<Input>, place: ToolPlace) => Promise<ToolResult>;
}>;

const jsonSchema = z.record(z.string(), z.json());

export function defineTool<Input extends z.ZodType>(definition: ToolDefinition<Input>): Tool {
  const { $schema: _draft, ...inputSchema } = jsonSchema.parse(z.toJSONSchema(definition.input, { io: "input" }));
  return {
    description: { name: definition.name, description: definition.description, inputSchema },
    effect: definition.effect,
    accept: (input) => accept(definition, input),
  };
}

function accept<Input extends z.ZodType>(definition: ToolDefinition<Input>, input: Json): Accepted {
  const parsed = definition.input.safeParse(input);
  if (!parsed.success) return { status: "refused", message: z.prettifyError(parsed.error) };
  const inBackground = definition.inBackground?.(parsed.data) ?? false;
  const takesMs = definition.takesMs?.(parsed.data) ?? 0;
  return { status: "accepted", inBackground, takesMs, run: (place) => definition.run(parsed.data, place) };
}
