// Numbers with units, for people.

const KIBI = 1024;
const UNITS = ["KiB", "MiB", "GiB", "TiB"];

export function bytesText(bytes: number): string {
  if (bytes < KIBI) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), UNITS.length);
  return `${(bytes / KIBI ** power).toFixed(1)} ${UNITS[power - 1]}`;
}

export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** `complete` false: some replies' price is not known, so it is at least this much. */
export function costText(costUsd: number, complete: boolean): string {
  if (costUsd === 0) return complete ? "no cost" : "cost unknown";
  return `${complete ? "" : "at least "}$${costUsd < 0.01 ? costUsd.toFixed(4) : costUsd.toFixed(2)}`;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Columns as wide as their widest cell, two spaces between; the last one is not padded. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    });
  }
  const line = (row: readonly string[]) =>
    row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join("  ");
  return rows.map((row) => `${line(row)}\n`).join("");
}
