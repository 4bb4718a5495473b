// The binary WebSocket frames between brain, relay and pistisd.
//
//   byte 0      kind
//   bytes 1-4   channel, unsigned big-endian: one server-side peer of a sandbox
//   bytes 5-    payload, which the relay does not read
//
// On the server's leg there is one peer, so the channel is 0 there; the relay writes the number
// that it gave the peer on the sandbox's leg. A frame is at most FRAME_BYTES_MAX.

export const SUBPROTOCOL = "pistis.1";
export const FRAME_HEADER_BYTES = 5;
export const FRAME_BYTES_MAX = 1024 * 1024;
export const DATA_HEADER_BYTES = 12;
/** Small enough that most frames arrive within one read of a socket and need no buffer of their own (measured). */
export const DATA_BYTES_MAX = 32 * 1024;
/** What a stream's sender may have under way before the receiver grants more. */
export const STREAM_WINDOW_BYTES = 4 * 1024 * 1024;

export const Kind = {
  /** Endpoint to endpoint: UTF-8 JSON of schemas/wire/message.ts. */
  message: 1,
  /** Endpoint to endpoint: stream u32, position u64, bytes. No bytes means the end of the stream. */
  data: 2,
  /** Endpoint to endpoint: stream u32, bytes u32 that the receiver will take beyond what it granted before. */
  credit: 3,
  /** Relay to sandbox: a server-side peer attached as this channel. */
  open: 16,
  /** Relay to sandbox: that peer is gone. */
  close: 17,
  /** Relay to server: JSON {online, bootId, generation}; sent on attach and at every change. */
  status: 18,
} as const;

export type Kind = (typeof Kind)[keyof typeof Kind];
export type Frame = { kind: number; channel: number; payload: Uint8Array };

export class FrameError extends Error {
  override readonly name = "FrameError";
}

/** A view on `bytes`; nothing is copied. Throws FrameError for what is no frame. */
export function readFrame(bytes: Uint8Array): Frame {
  if (bytes.byteLength < FRAME_HEADER_BYTES) throw new FrameError(`A frame of ${bytes.byteLength} bytes has no header`);
  if (bytes.byteLength > FRAME_BYTES_MAX) throw new FrameError(`A frame of ${bytes.byteLength} bytes is too large`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { kind: view.getUint8(0), channel: view.getUint32(1), payload: bytes.subarray(FRAME_HEADER_BYTES) };
}

export function writeFrame(kind: Kind, channel: number, payload: Uint8Array): Uint8Array {
  const frame = new Uint8Array(FRAME_HEADER_BYTES + payload.byteLength);
  const view = new DataView(frame.buffer);
  view.setUint8(0, kind);
  view.setUint32(1, channel);
  frame.set(payload, FRAME_HEADER_BYTES);
  return frame;
}

export type DataPayload = { stream: number; position: number; bytes: Uint8Array };

export function readData(payload: Uint8Array): DataPayload {
  if (payload.byteLength < DATA_HEADER_BYTES) throw new FrameError("A data frame has no header");
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const position = view.getBigUint64(4);
  if (position > BigInt(Number.MAX_SAFE_INTEGER)) throw new FrameError("A data frame's position is out of range");
  return { stream: view.getUint32(0), position: Number(position), bytes: payload.subarray(DATA_HEADER_BYTES) };
}

/** A whole data frame in one allocation. */
export function writeDataFrame(channel: number, data: DataPayload): Uint8Array {
  const frame = new Uint8Array(FRAME_HEADER_BYTES + DATA_HEADER_BYTES + data.bytes.byteLength);
  const view = new DataView(frame.buffer);
  view.setUint8(0, Kind.data);
  view.setUint32(1, channel);
  view.setUint32(5, data.stream);
  view.setBigUint64(9, BigInt(data.position));
  frame.set(data.bytes, FRAME_HEADER_BYTES + DATA_HEADER_BYTES);
  return frame;
}

export function readCredit(payload: Uint8Array): { stream: number; bytes: number } {
  if (payload.byteLength !== 8) throw new FrameError("A credit frame has 8 bytes of payload");
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  return { stream: view.getUint32(0), bytes: view.getUint32(4) };
}

export function writeCreditFrame(channel: number, stream: number, bytes: number): Uint8Array {
  const payload = new Uint8Array(8);
  const view = new DataView(payload.buffer);
  view.setUint32(0, stream);
  view.setUint32(4, bytes);
  return writeFrame(Kind.credit, channel, payload);
}
