// Every tool there is. A new one is a file and a line here.
import { bashTool, type CommandLimits } from "./bash.ts";
import { editTool, listTool, searchTool, writeTool } from "./files.ts";
import { bashKillTool, bashListTool, bashOutputTool } from "./processes.ts";
import { readTool } from "./read.ts";
import type { Tool } from "./tool.ts";

export type Toolbox = ReadonlyMap<string, Tool>;

/** `folder`: where the agent works, absolute. */
export function openToolbox(limits: CommandLimits, folder: string): Toolbox {
  const tools = [
    bashTool(limits, folder),
    bashOutputTool(),
    bashListTool(),
    bashKillTool(),
    readTool(folder),
    writeTool(folder),
    editTool(folder),
    listTool(folder),
    searchTool(folder),
  ];
  return new Map(tools.map((tool) => [tool.description.name, tool]));
}
