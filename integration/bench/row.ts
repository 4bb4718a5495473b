// One figure beside its raw baseline from the same run. The ratio is what can be compared between machines.

export type Row = Readonly<{
  name: string;
  unit: string;
  value: number;
  /** The same work done bare, in the same run; null where there is no such thing. */
  baseline: number | null;
  ratio: number | null;
  aim: string;
  holds: boolean;
}>;

/** `atMost`/`atLeast` bound the value, `ratioAtMost`/`ratioAtLeast` the ratio of value to baseline. */
export type Aim = Readonly<{ atMost?: number; atLeast?: number; ratioAtMost?: number; ratioAtLeast?: number }>;

export function row(name: string, unit: string, measured: { value: number; baseline?: number }, aim: Aim = {}): Row {
  const ratio = measured.baseline === undefined ? null : measured.value / measured.baseline;
  return {
    name,
    unit,
    value: measured.value,
    baseline: measured.baseline ?? null,
    ratio,
    aim: describeAim(aim, unit),
    holds: holds(measured.value, ratio, aim),
  };
}

function describeAim(aim: Aim, unit: string): string {
  const parts = [
    aim.atMost === undefined ? [] : [`≤ ${aim.atMost} ${unit}`],
    aim.atLeast === undefined ? [] : [`≥ ${aim.atLeast} ${unit}`],
    aim.ratioAtMost === undefined ? [] : [`≤ ${aim.ratioAtMost} × baseline`],
    aim.ratioAtLeast === undefined ? [] : [`≥ ${aim.ratioAtLeast} × baseline`],
  ].flat();
  return parts.length === 0 ? "none" : parts.join(", ");
}

function holds(value: number, ratio: number | null, aim: Aim): boolean {
  return (
    (aim.atMost === undefined || value <= aim.atMost) &&
    (aim.atLeast === undefined || value >= aim.atLeast) &&
    (aim.ratioAtMost === undefined || (ratio !== null && ratio <= aim.ratioAtMost)) &&
    (aim.ratioAtLeast === undefined || (ratio !== null && ratio >= aim.ratioAtLeast))
  );
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) throw new Error("A median needs at least one value");
  return middle;
}

/** Milliseconds that `work` takes, once. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export function printTable(rows: readonly Row[]): string {
  const head = ["bench", "value", "baseline", "ratio", "aim", "holds"];
  const cells = rows.map((entry) => [
    entry.name,
    `${round(entry.value)} ${entry.unit}`,
    entry.baseline === null ? "-" : `${round(entry.baseline)} ${entry.unit}`,
    entry.ratio === null ? "-" : `${round(entry.ratio)} ×`,
    entry.aim,
    entry.aim === "none" ? "-" : entry.holds ? "yes" : "NO",
  ]);
  const widths = head.map((title, column) =>
    Math.max(title.length, ...cells.map((line) => (line[column] ?? "").length)),
  );
  const line = (parts: string[]) =>
    parts
      .map((part, column) => part.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...cells.map(line)].join("\n");
}

function round(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
