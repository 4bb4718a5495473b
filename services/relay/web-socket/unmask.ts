const WORD_BYTES = 8;

/** Takes a client's mask off, in place; `offset` is how much of the frame came before. Eight bytes at a time. */
export function unmask(bytes: Buffer, mask: Buffer, offset: number): void {
  const size = bytes.byteLength;
  const start = Math.min(size, (WORD_BYTES - (bytes.byteOffset % WORD_BYTES)) % WORD_BYTES);
  const words = Math.floor((size - start) / WORD_BYTES);
  const end = start + words * WORD_BYTES;
  unmaskBytes(bytes, mask, offset, { from: 0, to: start });
  if (words > 0) unmaskWords(new BigUint64Array(bytes.buffer, bytes.byteOffset + start, words), mask, offset + start);
  unmaskBytes(bytes, mask, offset, { from: end, to: size });
}

function unmaskBytes(bytes: Buffer, mask: Buffer, offset: number, { from, to }: { from: number; to: number }): void {
  for (let at = from; at < to; at++) bytes[at] = (bytes[at] ?? 0) ^ (mask[(offset + at) & 3] ?? 0);
}

function unmaskWords(words: BigUint64Array, mask: Buffer, offset: number): void {
  const repeated = new BigUint64Array(1);
  const bytes = new Uint8Array(repeated.buffer);
  for (let at = 0; at < WORD_BYTES; at++) bytes[at] = mask[(offset + at) & 3] ?? 0;
  const [word = 0n] = repeated;
  for (let at = 0; at < words.length; at++) words[at] = (words[at] ?? 0n) ^ word;
}
