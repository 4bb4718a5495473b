// The engine unpacks what comes as a tar file, and what it takes for one may be far larger than what was sent: it opens
// gzip, bzip2, xz and zstd by itself, and writes out the holes of sparse files. So only plain entries pass, each with its
// content at full length: what is unpacked is then never more than what was counted on the way.
import { Transform } from "node:stream";
import { forbidden, type Refused, tooLarge } from "./refused.ts";

const BLOCK = 512;
const FILE = "0";
/** A file, a link by name, a folder. All else changes what comes after it, or is no file. */
const TYPES: ReadonlySet<string> = new Set([FILE, "2", "5"]);
/** How a name may begin: not like a packed form that the engine knows; of those, bzip2 alone begins with letters. */
const NAME = /^(?!BZh)[A-Za-z.][\w./-]/;

const packed = (what: string) => forbidden("archive_not_plain", `A tar file here is plain, and this one ${what}`);

/** Passes a plain tar file through. Fails with Refused `archive_not_plain`, or `body_too_large` at the first byte over the limit. */
export function plainTar(bytesMax: number): Transform {
  const reader: Reader = { header: Buffer.alloc(BLOCK), filled: 0, contentLeft: 0, ended: false };
  let size = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.byteLength;
      const wrong = size > bytesMax ? tooLarge(bytesMax) : read(reader, chunk);
      if (wrong === undefined) done(null, chunk);
      else done(wrong);
    },
  });
}

type Reader = { header: Buffer; filled: number; contentLeft: number; ended: boolean };

/** What is wrong with it, or undefined. Nothing of a chunk passes before all of it was looked at. */
function read(reader: Reader, chunk: Buffer): Refused | undefined {
  for (let at = 0; at < chunk.byteLength; ) {
    const content = Math.min(reader.contentLeft, chunk.byteLength - at);
    reader.contentLeft -= content;
    at += content;
    const taken = Math.min(BLOCK - reader.filled, chunk.byteLength - at);
    chunk.copy(reader.header, reader.filled, at, at + taken);
    reader.filled += taken;
    at += taken;
    if (reader.filled < BLOCK) continue;
    reader.filled = 0;
    const wrong = readHeader(reader);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function readHeader(reader: Reader): Refused | undefined {
  const { header } = reader;
  if (header.every((byte) => byte === 0)) {
    reader.ended = true;
    return undefined;
  }
  if (reader.ended) return packed("goes on after its end");
  if (!NAME.test(header.toString("latin1", 0, 3)) || header.toString("latin1", 257, 262) !== "ustar") {
    return packed("has something else for a header");
  }
  const type = header.toString("latin1", 156, 157);
  if (!TYPES.has(type)) return packed("has an entry that is no file, folder or link");
  const size = /^([0-7]{1,11})[\0 ]/.exec(header.toString("latin1", 124, 136))?.[1];
  if (size === undefined) return packed("has an entry without a length");
  const bytes = type === FILE ? Number.parseInt(size, 8) : 0;
  reader.contentLeft = Math.ceil(bytes / BLOCK) * BLOCK;
  return undefined;
}
