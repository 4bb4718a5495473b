// Reads the server name out of the first bytes of a TLS connection, whatever they are cut into: TCP segments, TLS
// records of one byte each, a hello over many records. Nothing is decrypted. Of a hello with an encrypted one inside
// (ECH) this is the outer name, the only one that is to be seen.

export type HelloResult =
  | Readonly<{ status: "incomplete" }>
  /** `serverName` as sent; undefined when there is none, as with a connection to an address. */
  | Readonly<{ status: "hello"; serverName: string | undefined }>
  | Readonly<{ status: "invalid" }>;

const RECORD_HEADER_BYTES = 5;
const HANDSHAKE_HEADER_BYTES = 4;
const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const RECORD_BYTES_MAX = 16_384;
const VERSION_MAJOR = 3;
const SERVER_NAME = 0;
const HOST_NAME = 0;

const INCOMPLETE: HelloResult = { status: "incomplete" };
const INVALID: HelloResult = { status: "invalid" };

/** Takes bytes until they are a whole hello. Each byte is copied once, however few come at a time. */
export class ClientHelloReader {
  readonly #bytesMax: number;
  readonly #received = new Growing();
  readonly #handshake = new Growing();
  #recordAt = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Everything so far, to be passed on. */
  get received(): Buffer {
    return this.#received.bytes;
  }

  push(bytes: Buffer): HelloResult {
    if (this.#received.bytes.byteLength + bytes.byteLength > this.#bytesMax) return INVALID;
    this.#received.append(bytes);
    for (;;) {
      const record = this.#nextRecord();
      if (record === "incomplete") return INCOMPLETE;
      if (record === "invalid") return INVALID;
      const result = this.#take(record);
      if (result.status !== "incomplete") return result;
    }
  }

  #nextRecord(): Buffer | "incomplete" | "invalid" {
    const head = this.#received.bytes.subarray(this.#recordAt);
    const [type, major] = head;
    if (type !== undefined && type !== HANDSHAKE_RECORD) return "invalid";
    if (major !== undefined && major !== VERSION_MAJOR) return "invalid";
    if (head.byteLength < RECORD_HEADER_BYTES) return "incomplete";
    const length = head.readUInt16BE(3);
    if (length === 0 || length > RECORD_BYTES_MAX) return "invalid";
    if (head.byteLength < RECORD_HEADER_BYTES + length) return "incomplete";
    this.#recordAt += RECORD_HEADER_BYTES + length;
    return head.subarray(RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + length);
  }

  #take(record: Buffer): HelloResult {
    this.#handshake.append(record);
    const { bytes } = this.#handshake;
    if (bytes[0] !== CLIENT_HELLO) return INVALID;
    if (bytes.byteLength < HANDSHAKE_HEADER_BYTES) return INCOMPLETE;
    const length = HANDSHAKE_HEADER_BYTES + bytes.readUIntBE(1, 3);
    if (length > this.#bytesMax) return INVALID;
    if (bytes.byteLength < length) return INCOMPLETE;
    // A second message behind the hello could be another hello.
    if (bytes.byteLength > length) return INVALID;
    return parseHello(bytes.subarray(HANDSHAKE_HEADER_BYTES));
  }
}

/** Doubles when it is full. */
class Growing {
  #buffer = Buffer.alloc(2_048);
  #length = 0;

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  append(bytes: Buffer): void {
    const needed = this.#length + bytes.byteLength;
    if (needed > this.#buffer.byteLength) {
      const larger = Buffer.alloc(Math.max(needed, this.#buffer.byteLength * 2));
      this.#buffer.copy(larger);
      this.#buffer = larger;
    }
    bytes.copy(this.#buffer, this.#length);
    this.#length = needed;
  }
}

function parseHello(hello: Buffer): HelloResult {
  try {
    const reader = new Fields(hello);
    reader.skip(2 + 32); // version, random
    reader.field(1); // session id
    reader.field(2); // cipher suites
    reader.field(1); // compression methods
    if (reader.isAtEnd) return { status: "hello", serverName: undefined };
    const extensions = new Fields(reader.field(2));
    if (!reader.isAtEnd) return INVALID;
    return { status: "hello", serverName: serverNameIn(extensions) };
  } catch (error) {
    if (error instanceof RangeError) return INVALID;
    throw error;
  }
}

/** Throws RangeError for a second server name. */
function serverNameIn(extensions: Fields): string | undefined {
  let name: string | undefined;
  while (!extensions.isAtEnd) {
    const type = extensions.number(2);
    const content = extensions.field(2);
    if (type !== SERVER_NAME) continue;
    if (name !== undefined) throw new RangeError("Two server names");
    const list = new Fields(content);
    const names = new Fields(list.field(2));
    if (names.number(1) !== HOST_NAME) throw new RangeError("No host name");
    name = names.field(2).toString("latin1");
    if (!names.isAtEnd || !list.isAtEnd) throw new RangeError("Two server names");
  }
  return name;
}

/** Reads numbers and length-prefixed fields; throws RangeError beyond the end. */
class Fields {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.byteLength;
  }

  skip(count: number): void {
    if (this.#at + count > this.#bytes.byteLength) throw new RangeError("Too short");
    this.#at += count;
  }

  number(size: 1 | 2): number {
    const from = this.#at;
    this.skip(size);
    return this.#bytes.readUIntBE(from, size);
  }

  field(lengthSize: 1 | 2): Buffer {
    const length = this.number(lengthSize);
    const from = this.#at;
    this.skip(length);
    return this.#bytes.subarray(from, this.#at);
  }
}
