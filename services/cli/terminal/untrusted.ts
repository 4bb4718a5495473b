// Text from a sandbox, a model or a stranger's repository must not steer the terminal that shows it: it could move
// the cursor, set the window's title or write the clipboard.

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const COLOUR = /\u001b\[[0-9;]{0,20}m/g;
// Everything of C0 but tab and line feed, DEL, C1, and the characters that turn the writing direction.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Colours stay when `colour` is true; a carriage return becomes a line end; other control characters become visible. */
export function shown(text: string, colour = false): string {
  const lines = text.replace(/\r\n?/g, "\n");
  if (!colour) return visible(lines.replace(COLOUR, ""));
  const colours = lines.match(COLOUR) ?? [];
  const parts = lines.split(COLOUR).map((part, index) => visible(part) + (colours[index] ?? ""));
  return colours.length === 0 ? parts.join("") : `${parts.join("")}\u001b[0m`;
}

/** One line, cut to `charactersMax`. */
export function shownLine(text: string, charactersMax = 200): string {
  const line = shown(text).replace(/\s+/g, " ").trim();
  return line.length > charactersMax ? `${line.slice(0, charactersMax - 1)}…` : line;
}

function visible(text: string): string {
  return text.replace(CONTROL, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : "\ufffd";
  });
}
