// Tar files as the provider writes them, and such as unpack to far more than they are.

function headerOf(name: string, { type = "0", bytes = 0 }: { type?: string; bytes?: number }): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write("0001750\0", 108);
  header.write("0001750\0", 116);
  header.write(`${bytes.toString(8).padStart(11, "0")}\0`, 124);
  header.write("00000000000\0", 136);
  header.write("        ", 148);
  header.write(type, 156);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

const END = Buffer.alloc(1_024);

/** Of one file of at most 512 bytes. */
export function tarOf(name: string, content: string): Buffer {
  const body = Buffer.alloc(512);
  body.write(content);
  return Buffer.concat([headerOf(name, { bytes: content.length }), body, END]);
}

/** Of one file of zeros, as it would be written to the disk. */
export function largeTarOf(name: string, bytes: number): Buffer {
  return Buffer.concat([headerOf(name, { bytes }), Buffer.alloc(bytes), END]);
}

/** Of one file that is a single hole, in the extended form: 3 KiB of tar for any number of bytes. */
export function sparseTar(name: string, bytes: number): Buffer {
  const records = { "GNU.sparse.numblocks": "1", "GNU.sparse.map": `${bytes},0`, "GNU.sparse.size": `${bytes}` };
  const extended = Buffer.alloc(512);
  const written = extended.write(Object.entries(records).map(recordOf).join(""));
  return Buffer.concat([headerOf("pax", { type: "x", bytes: written }), extended, headerOf(name, {}), END]);
}

/** Begins with its own length. */
function recordOf([key, value]: [string, string]): string {
  const rest = ` ${key}=${value}\n`;
  return `${rest.length + 2}${rest}`;
}
