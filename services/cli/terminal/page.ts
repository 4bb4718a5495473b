// Text of several speakers in one stream of lines: each speaker starts on a line of its own.
import type { Terminal } from "./terminal.ts";

export type Page = Readonly<{
  /** Running text of one speaker, in pieces; each of its lines starts with `indent`. */
  say: (speaker: string, text: string, indent?: string) => void;
  line: (text: string) => void;
  note: (text: string) => void;
}>;

type State = { readonly terminal: Terminal; atLineStart: boolean; speaker: string };

export function newPage(terminal: Terminal): Page {
  const state: State = { terminal, atLineStart: true, speaker: "" };
  return {
    say: (speaker, text, indent = "") => say(state, speaker, text, indent),
    line: (text) => line(state, text),
    note: (text) => line(state, terminal.paint("dim", `  · ${text}`)),
  };
}

function say(state: State, speaker: string, text: string, indent: string): void {
  if (text === "") return;
  if (speaker !== state.speaker) breakLine(state);
  state.speaker = speaker;
  const ends = text.endsWith("\n");
  const body = (ends ? text.slice(0, -1) : text).replaceAll("\n", `\n${indent}`);
  state.terminal.out(`${state.atLineStart ? indent : ""}${body}${ends ? "\n" : ""}`);
  state.atLineStart = ends;
}

function line(state: State, text: string): void {
  breakLine(state);
  state.speaker = "";
  state.terminal.out(`${text}\n`);
}

function breakLine(state: State): void {
  if (!state.atLineStart) state.terminal.out("\n");
  state.atLineStart = true;
}
