// What a client sends over a WebSocket (RFC 6455 without extensions), cut into messages but not put together: a message
// is the pieces in which it was read, so that passing it on copies nothing. The client may be hostile; a breach of the
// protocol or of a bound throws WebSocketBreach, after which the connection has to end.
import { unmask } from "./unmask.ts";

/** At least one piece, each of them memory of its own. */
export type Message = Readonly<{ pieces: readonly Buffer[]; isBinary: boolean }>;

export type ReaderEvents = Readonly<{
  message: (message: Message) => void;
  ping: (payload: Buffer) => void;
  pong: () => void;
  /** The client says goodbye; what comes after is not read. */
  close: () => void;
}>;

export const Opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
/** Reasons to close, as RFC 6455 numbers them. */
export const Breach = { protocol: 1002, tooLarge: 1009 } as const;

export class WebSocketBreach extends Error {
  override readonly name = "WebSocketBreach";
  readonly code: (typeof Breach)[keyof typeof Breach];
  constructor(code: (typeof Breach)[keyof typeof Breach], message: string) {
    super(message);
    this.code = code;
  }
}

export const CONTROL_BYTES_MAX = 125;
export const FRAGMENTS_MAX = 64;
/** More pieces than this are put together after all, so that crumbs do not weigh more than their bytes. */
export const PIECES_MAX = 64;
/** A piece that is a smaller part of the memory that it was read into is copied: it would hold on to all of that. */
const PART_OF_MEMORY_MIN = 1 / 4;
const NO_BYTES = Buffer.alloc(0);

const LENGTH_16 = 126;
const LENGTH_64 = 127;
const MASK_BYTES = 4;
const HEADER_BYTES_MAX = 2 + 8 + MASK_BYTES;

type Frame = { readonly opcode: number; readonly isLast: boolean; read: number; left: number };
/** `byteLength` is what the headers announced so far; `room` is the only piece, and filled up to `used`. */
type Open = { isBinary: boolean; pieces: Buffer[]; byteLength: number; frames: number; room: Room | undefined };
type Room = { readonly bytes: Buffer; used: number };

export class WebSocketReader {
  readonly #events: ReaderEvents;
  readonly #messageBytesMax: number;
  readonly #header = Buffer.alloc(HEADER_BYTES_MAX);
  readonly #mask = Buffer.alloc(MASK_BYTES);
  readonly #control = Buffer.alloc(CONTROL_BYTES_MAX);
  #headerBytes = 0;
  #frame: Frame | undefined;
  #message: Open | undefined;
  #isOver = false;

  constructor(events: ReaderEvents, messageBytesMax: number) {
    this.#events = events;
    this.#messageBytesMax = messageBytesMax;
  }

  /** Takes what was read and changes it in place. */
  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.byteLength > 0 && !this.#isOver) {
      rest = this.#frame === undefined ? this.#readHeader(rest) : this.#readPayload(this.#frame, rest);
    }
  }

  /** The first two bytes say how many there are. */
  #readHeader(bytes: Buffer): Buffer {
    const wanted = this.#headerBytes < 2 ? 2 : headerBytes(this.#header);
    const taken = bytes.copy(this.#header, this.#headerBytes, 0, wanted - this.#headerBytes);
    this.#headerBytes += taken;
    if (this.#headerBytes >= 2 && this.#headerBytes === headerBytes(this.#header)) this.#begin();
    return bytes.subarray(taken);
  }

  #begin(): void {
    const header = this.#header.subarray(0, this.#headerBytes);
    const [first = 0, second = 0] = header;
    const frame = { opcode: first & 0x0f, isLast: (first & 0x80) !== 0, read: 0, left: payloadBytes(header) };
    if ((first & 0x70) !== 0) throw breach("A frame uses an extension");
    if ((second & 0x80) === 0) throw breach("A client's frame has no mask");
    header.copy(this.#mask, 0, header.byteLength - MASK_BYTES);
    if (frame.opcode >= Opcode.close) checkControl(frame);
    else this.#beginPart(frame);
    this.#headerBytes = 0;
    this.#frame = frame;
    if (frame.left === 0) this.#end(frame);
  }

  #beginPart({ opcode, left }: Frame): void {
    if (opcode > Opcode.binary) throw breach("A frame of an unknown kind");
    if ((opcode === Opcode.continuation) !== (this.#message !== undefined)) throw breach("A fragment out of place");
    const message = this.#message ?? open(opcode);
    this.#message = message;
    message.byteLength += left;
    message.frames += 1;
    if (message.byteLength > this.#messageBytesMax || message.frames > FRAGMENTS_MAX) {
      throw new WebSocketBreach(
        Breach.tooLarge,
        `A message of over ${this.#messageBytesMax} bytes or in too many parts`,
      );
    }
  }

  #readPayload(frame: Frame, bytes: Buffer): Buffer {
    const piece = bytes.subarray(0, frame.left);
    unmask(piece, this.#mask, frame.read);
    if (frame.opcode >= Opcode.close) piece.copy(this.#control, frame.read);
    else if (this.#message !== undefined) keep(this.#message, piece);
    frame.read += piece.byteLength;
    frame.left -= piece.byteLength;
    if (frame.left === 0) this.#end(frame);
    return bytes.subarray(piece.byteLength);
  }

  #end({ opcode, isLast, read }: Frame): void {
    this.#frame = undefined;
    if (opcode >= Opcode.close) {
      this.#endControl(opcode, own(this.#control.subarray(0, read)));
      return;
    }
    const message = this.#message;
    if (!isLast || message === undefined) return;
    this.#message = undefined;
    this.#events.message({
      isBinary: message.isBinary,
      pieces: message.pieces.length > 0 ? message.pieces : [NO_BYTES],
    });
  }

  #endControl(opcode: number, payload: Buffer): void {
    if (opcode === Opcode.ping) this.#events.ping(payload);
    else if (opcode === Opcode.pong) this.#events.pong();
    else {
      this.#isOver = true;
      this.#events.close();
    }
  }
}

const open = (opcode: number): Open => ({
  isBinary: opcode === Opcode.binary,
  pieces: [],
  byteLength: 0,
  frames: 0,
  room: undefined,
});

function keep(message: Open, piece: Buffer): void {
  const { pieces, room } = message;
  if (room !== undefined && room.used + piece.byteLength <= room.bytes.byteLength) {
    room.used += piece.copy(room.bytes, room.used);
    return;
  }
  const isSmall = piece.byteLength < piece.buffer.byteLength * PART_OF_MEMORY_MIN;
  pieces.push(isSmall ? own(piece) : piece);
  if (pieces.length > PIECES_MAX) message.room = gather(message);
}

/** Puts the pieces together in memory that has room for the rest of the frame, so that each frame does so once. */
function gather(message: Open): Room {
  const room = { bytes: Buffer.allocUnsafeSlow(message.byteLength), used: 0 };
  for (const piece of message.pieces) room.used += piece.copy(room.bytes, room.used);
  message.pieces = [room.bytes];
  return room;
}

/** A copy that shares no memory with others. */
function own(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.byteLength);
  bytes.copy(copy);
  return copy;
}

function headerBytes(header: Buffer): number {
  const second = header[1] ?? 0;
  const length = second & 0x7f;
  return 2 + (length === LENGTH_64 ? 8 : length === LENGTH_16 ? 2 : 0) + ((second & 0x80) === 0 ? 0 : MASK_BYTES);
}

function payloadBytes(header: Buffer): number {
  const length = (header[1] ?? 0) & 0x7f;
  if (length === LENGTH_16) return header.readUInt16BE(2);
  return length === LENGTH_64 ? Number(header.readBigUInt64BE(2)) : length;
}

function checkControl({ opcode, isLast, left }: Frame): void {
  if (opcode > Opcode.pong) throw breach("A frame of an unknown kind");
  if (!isLast || left > CONTROL_BYTES_MAX) throw breach("A control frame in parts, or too large");
}

const breach = (message: string) => new WebSocketBreach(Breach.protocol, message);
