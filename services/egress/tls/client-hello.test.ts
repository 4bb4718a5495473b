import { expect } from "chai";
import { clientHello } from "../testing/stand-ins.ts";
import { ClientHelloReader, type HelloResult } from "./client-hello.ts";

const BYTES_MAX = 64 * 1024;
const HEADER_BYTES = 5;

function read(parts: readonly Buffer[]): HelloResult {
  const reader = new ClientHelloReader(BYTES_MAX);
  let result: HelloResult = { status: "incomplete" };
  for (const part of parts) result = reader.push(part);
  return result;
}

/** The handshake message in records of these sizes, the last one for the rest. */
function inRecords(hello: Buffer, sizes: readonly number[]): Buffer {
  let rest = hello.subarray(HEADER_BYTES);
  const records: Buffer[] = [];
  for (const size of [...sizes, rest.byteLength]) {
    const body = rest.subarray(0, size);
    if (body.byteLength === 0) break;
    rest = rest.subarray(body.byteLength);
    const header = Buffer.from([22, 3, 1, body.byteLength >> 8, body.byteLength & 0xff]);
    records.push(header, body);
  }
  return Buffer.concat(records);
}

function cut(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.byteLength / size) }, (_, at) =>
    bytes.subarray(at * size, at * size + size),
  );
}

/** A hello of our own making, of any size. */
function handMade(extensions: Buffer[]): Buffer {
  const all = Buffer.concat(extensions);
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32),
    Buffer.from([0, 0, 2, 0x13, 0x01, 1, 0, all.byteLength >> 8, all.byteLength & 0xff]),
    all,
  ]);
  const head = Buffer.from([1, body.byteLength >> 16, (body.byteLength >> 8) & 0xff, body.byteLength & 0xff]);
  return Buffer.concat([Buffer.alloc(HEADER_BYTES), head, body]);
}

function extension(type: number, content: Buffer): Buffer {
  const { byteLength: length } = content;
  return Buffer.concat([Buffer.from([type >> 8, type & 0xff, length >> 8, length & 0xff]), content]);
}

function serverName(...names: string[]): Buffer {
  const entries = names.map((name) =>
    Buffer.concat([Buffer.from([0, name.length >> 8, name.length & 0xff]), Buffer.from(name)]),
  );
  const list = Buffer.concat(entries);
  return extension(0, Buffer.concat([Buffer.from([list.byteLength >> 8, list.byteLength & 0xff]), list]));
}

describe("the first bytes of a TLS connection", () => {
  let hello: Buffer;
  before(async () => {
    hello = await clientHello("allowed.example");
  });

  it("S60: tell the server name of a real client's hello, and that one to an address has none", async () => {
    expect(read([hello])).to.deep.equal({ status: "hello", serverName: "allowed.example" });
    expect(read([await clientHello(undefined)])).to.deep.equal({ status: "hello", serverName: undefined });
  });

  it("tell the same, whatever segments and records they are cut into", () => {
    for (const recordSizes of [[], [1], [1, 1, 1, 1], [3, 100], Array<number>(hello.byteLength).fill(1)]) {
      const bytes = inRecords(hello, recordSizes);
      for (const segment of [1, 2, 3, 5, 7, 64, 1_000, bytes.byteLength]) {
        const result = read(cut(bytes, segment));
        expect(result, `${recordSizes.length} records, ${segment}`).to.include({ serverName: "allowed.example" });
      }
    }
  });

  it("are incomplete until the last one, and are handed on as they came", () => {
    const reader = new ClientHelloReader(BYTES_MAX);
    for (const byte of cut(hello.subarray(0, -1), 1)) expect(reader.push(byte).status).to.equal("incomplete");
    expect(reader.push(hello.subarray(-1)).status).to.equal("hello");
    expect(reader.received.equals(hello)).to.equal(true);
  });

  it("may be long: a hello of 60,000 bytes over many records", () => {
    const long = handMade([extension(21, Buffer.alloc(60_000)), serverName("allowed.example")]);
    const bytes = inRecords(long, Array<number>(20).fill(3_000));
    expect(read(cut(bytes, 1_400))).to.include({ serverName: "allowed.example" });
  });

  it("are refused beyond the limit, also when they come a byte at a time", () => {
    const endless = inRecords(handMade([extension(21, Buffer.alloc(65_000))]), Array<number>(70_000).fill(1));
    const reader = new ClientHelloReader(BYTES_MAX);
    const statuses = new Set(cut(endless, 7).map((part) => reader.push(part).status));
    expect([...statuses]).to.deep.equal(["incomplete", "invalid"]);
    expect(reader.received.byteLength).to.be.at.most(BYTES_MAX);
  });

  it("are refused when they say two names, or hide another message behind", () => {
    const twice = handMade([serverName("allowed.example"), serverName("blocked.example")]);
    const both = handMade([serverName("allowed.example", "blocked.example")]);
    const second = Buffer.concat([hello, hello.subarray(HEADER_BYTES)]);
    for (const bytes of [inRecords(twice, []), inRecords(both, []), inRecords(second, [])]) {
      expect(read([bytes]).status).to.equal("invalid");
    }
  });

  it("are refused when they are anything else, and no byte of them makes the reader fail", () => {
    const others = ["GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x02\x01\x00\x05hello", "\x16\x03\x01\x00\x00"];
    for (const text of others) expect(read([Buffer.from(text, "latin1")]).status, text).to.equal("invalid");
    for (let at = 0; at < hello.byteLength; at++) {
      for (const value of [0, 1, 0x7f, 0xff]) {
        const bytes = Buffer.from(hello);
        bytes[at] = value;
        expect(["hello", "invalid", "incomplete"]).to.include(read([bytes]).status);
      }
    }
  });
});
