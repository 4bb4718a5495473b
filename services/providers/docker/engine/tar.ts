// The little of the tar format that the engine's archive calls need: to write folders, files and links, and to read the
// one file of an answer.

export type TarEntry = Readonly<{
  /** Without a leading slash. */
  path: string;
  mode: number;
  /** Owner and group. */
  uid: number;
}> &
  (
    | Readonly<{ type: "folder" }>
    | Readonly<{ type: "file"; bytes: number }>
    | Readonly<{ type: "link"; target: string }>
  );

const BLOCK = 512;
const TYPE_FLAGS = { file: "0", link: "2", folder: "5" } as const;
/** Above it an octal number does not fit into its field, and GNU's binary form is used. */
const OCTAL_ID_MAX = 0o7777777;

/** What goes before an entry's content. */
export function tarHeader(entry: TarEntry): Buffer {
  const header = Buffer.alloc(BLOCK);
  if (Buffer.byteLength(entry.path) > 99) throw new RangeError(`Too long for a tar header: ${entry.path}`);
  header.write(entry.path, 0);
  octal(header, { at: 100, length: 8 }, entry.mode);
  id(header, 108, entry.uid);
  id(header, 116, entry.uid);
  octal(header, { at: 124, length: 12 }, entry.type === "file" ? entry.bytes : 0);
  octal(header, { at: 136, length: 12 }, 0);
  header.write(TYPE_FLAGS[entry.type], 156);
  if (entry.type === "link") header.write(entry.target, 157, 99);
  header.write("ustar\u000000", 257);
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

/** What goes after a content of `bytes`. */
export function tarPadding(bytes: number): Buffer {
  return Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK);
}

export const TAR_END = Buffer.alloc(2 * BLOCK);

export type SmallEntry = Readonly<{ path: string; mode: number; uid: number; content?: string }>;

/** A whole tar file; an entry without content is a folder. */
export function smallTar(entries: readonly SmallEntry[]): Buffer {
  const parts = entries.flatMap(({ content, ...about }) => {
    if (content === undefined) return [tarHeader({ ...about, type: "folder" })];
    const bytes = Buffer.from(content);
    const header = tarHeader({ ...about, type: "file", bytes: bytes.byteLength });
    return [header, bytes, tarPadding(bytes.byteLength)];
  });
  return Buffer.concat([...parts, TAR_END]);
}

/** The content of the first entry, if that is a file. */
export function firstFileOf(tar: Buffer): Buffer | undefined {
  if (tar.byteLength < BLOCK || tar.toString("latin1", 156, 157) !== TYPE_FLAGS.file) return undefined;
  const bytes = Number.parseInt(tar.toString("latin1", 124, 136), 8);
  return Number.isNaN(bytes) ? undefined : tar.subarray(BLOCK, BLOCK + bytes);
}

function octal(header: Buffer, { at, length }: { at: number; length: number }, value: number): void {
  header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at);
}

function id(header: Buffer, at: number, value: number): void {
  if (value <= OCTAL_ID_MAX) octal(header, { at, length: 8 }, value);
  else {
    header.writeUInt8(0x80, at);
    header.writeUIntBE(value, at + 2, 6);
  }
}
