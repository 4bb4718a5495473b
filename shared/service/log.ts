import { pino } from "pino";

export type Log = Readonly<{
  debug: (fields: object, text: string) => void;
  info: (fields: object, text: string) => void;
  warn: (fields: object, text: string) => void;
  error: (fields: object, text: string) => void;
}>;

/** A JSON log on standard error. Secrets are never put into `fields`. */
export function openLog(service: string, level = "info"): Log {
  return pino({ name: service, level, base: { service } }, pino.destination({ dest: 2, sync: true }));
}

export const silentLog: Log = { debug: drop, info: drop, warn: drop, error: drop };

function drop(): void {
  // Tests that do not look at the log pass silentLog.
}
