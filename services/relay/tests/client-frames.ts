// Frames as a client sends them, also those that no honest one would.
export const Opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
const MASK = Buffer.from([0x5a, 0x01, 0xfe, 0x80]);

export type FrameShape = Readonly<{
  opcode: number;
  payload?: Uint8Array;
  isLast?: boolean;
  /** RSV1 to RSV3 */
  reserved?: number;
  masked?: boolean;
  /** What the header says, when that is not the truth. */
  announced?: bigint;
}>;

export function clientFrame({ opcode, payload = Buffer.alloc(0), ...rest }: FrameShape): Buffer {
  const { isLast = true, reserved = 0, masked = true, announced } = rest;
  const first = (isLast ? 0x80 : 0) | (reserved << 4) | opcode;
  const length = lengthBytes(announced ?? BigInt(payload.byteLength), announced !== undefined);
  length[0] = (length[0] ?? 0) | (masked ? 0x80 : 0);
  const body = Buffer.from(payload);
  if (masked) for (const at of body.keys()) body[at] = (body[at] ?? 0) ^ (MASK[at % 4] ?? 0);
  return Buffer.concat([Buffer.from([first]), length, ...(masked ? [MASK] : []), body]);
}

function lengthBytes(length: bigint, long: boolean): Buffer {
  const bytes = Buffer.alloc(long || length > 0xffffn ? 9 : length > 125n ? 3 : 1);
  bytes[0] = bytes.byteLength === 9 ? 127 : bytes.byteLength === 3 ? 126 : Number(length);
  if (bytes.byteLength === 9) bytes.writeBigUInt64BE(length, 1);
  if (bytes.byteLength === 3) bytes.writeUInt16BE(Number(length), 1);
  return bytes;
}
