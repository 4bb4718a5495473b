// Where the command line writes. Colour is for people at a terminal; everything else gets plain text.
import type { Environment } from "#shared/config/interpolate.ts";

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

export type Terminal = Readonly<{
  /** Results: standard output. */
  out: (text: string) => void;
  /** Progress, warnings and errors: standard error. */
  err: (text: string) => void;
  /** Whether a person looks at standard output. */
  interactive: boolean;
  coloured: boolean;
  paint: (style: Style, text: string) => string;
}>;

type Stream = { write: (text: string) => unknown; isTTY?: boolean };

const CODES: Record<Style, readonly [number, number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
};

export function openTerminal(out: Stream, err: Stream, environment: Environment): Terminal {
  const interactive = out.isTTY === true;
  const coloured = interactive && !environment["NO_COLOR"] && environment["TERM"] !== "dumb";
  return {
    out: (text) => void out.write(text),
    err: (text) => void err.write(text),
    interactive,
    coloured,
    paint: coloured ? paint : (_style, text) => text,
  };
}

function paint(style: Style, text: string): string {
  const [on, off] = CODES[style];
  return `\u001b[${on}m${text}\u001b[${off}m`;
}
