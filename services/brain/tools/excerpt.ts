// Bytes of the sandbox as text for the model. What is no UTF-8 is replaced (C81); what is left out is counted.

const replacing = new TextDecoder("utf-8");

export function textOf(bytes: Uint8Array): string {
  return replacing.decode(bytes);
}

export type Excerpt = Readonly<{ head: Uint8Array; tail: Uint8Array; bytes: number }>;

export function omittedBytesOf({ head, tail, bytes }: Excerpt): number {
  return Math.max(0, bytes - head.byteLength - tail.byteLength);
}

/** Head and tail, and between them the exact count of what is left out and how to get it. */
export function excerptText(excerpt: Excerpt, handle: string): string {
  const { head, tail } = excerpt;
  const omitted = omittedBytesOf(excerpt);
  if (omitted === 0) return textOf(Buffer.concat([head, tail]));
  const note = `[${omitted} bytes left out here; bash_output with handle "${handle}" and from ${head.byteLength} reads on]`;
  return `${textOf(head)}\n${note}\n${textOf(tail)}`;
}

/** At most `max` characters, cut at the end, saying so. */
export function clipped(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max)}[… ${text.length - max} more characters]`;
}
