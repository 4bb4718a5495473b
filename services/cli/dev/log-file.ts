// The services' log: a file in the state folder; warnings and errors also reach the person at the terminal.
import { rename, stat } from "node:fs/promises";
import { type DestinationStream, type Level, multistream, pino } from "pino";
import { z } from "zod";
import type { Log } from "#shared/service/log.ts";
import type { StateFolder } from "../state/state-folder.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { shownLine } from "../terminal/untrusted.ts";

const LOG_BYTES_MAX = 32 * 1024 * 1024;
const LINE_CHARACTERS_MAX = 500;

const logLine = z.looseObject({ level: z.number(), msg: z.string().optional(), service: z.string().optional() });

/** A log for each service. The file of before is kept once as `.1` when it has grown large. */
export async function openLogFile(
  folder: StateFolder,
  terminal: Terminal,
  verbose: boolean,
): Promise<(service: string) => Log> {
  const size = await stat(folder.log).then(
    (file) => file.size,
    () => 0,
  );
  if (size > LOG_BYTES_MAX) await rename(folder.log, `${folder.log}.1`);
  const file = pino.destination({ dest: folder.log, sync: true, mode: 0o600 });
  const level: Level = verbose ? "debug" : "warn";
  const root = pino(
    { level: "debug" },
    multistream([
      { stream: file, level: verbose ? "debug" : "info" },
      { stream: toTerminal(terminal), level },
    ]),
  );
  return (service) => root.child({ service });
}

function toTerminal({ err, paint }: Terminal): DestinationStream {
  return {
    write: (text) => {
      const {
        level,
        msg = "",
        service = "",
        time: _time,
        pid: _pid,
        hostname: _hostname,
        ...fields
      } = logLine.parse(JSON.parse(text));
      const facts = Object.keys(fields).length === 0 ? "" : ` ${JSON.stringify(fields)}`;
      const line = shownLine(`${service}: ${msg}${facts}`, LINE_CHARACTERS_MAX);
      err(`${level >= 50 ? paint("red", line) : level >= 40 ? paint("yellow", line) : paint("dim", line)}\n`);
    },
  };
}
