// A name server for tests: answers what it was told, and counts what it was asked.
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { isIPv6 } from "node:net";

export type NameServer = Readonly<{
  /** `address:port` */
  address: string;
  /** The names that were asked for, each time; `name type`. */
  asked: string[];
  close: () => Promise<void>;
}>;

const TYPE_A = 1;
const TYPE_AAAA = 28;
const NO_SUCH_NAME = 3;
const HEADER_BYTES = 12;

/** `names`: the addresses of each. A list of lists: the first answer, the second, and so on, the last for ever. */
export async function startNameServer(names: { [name: string]: string[] | string[][] }): Promise<NameServer> {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  socket.on("message", (question, { address, port }) => {
    const { name, type, end } = readQuestion(question);
    asked.push(`${name} ${type === TYPE_A ? "A" : "AAAA"}`);
    const turn = asked.filter((one) => one === asked.at(-1)).length - 1;
    const all = names[name];
    const found = all === undefined ? undefined : addressesAt(all, turn);
    socket.send(answerTo(question.subarray(0, end), type, found), port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    close: async () => {
      socket.close();
      await once(socket, "close");
    },
  };
}

function addressesAt(all: string[] | string[][], turn: number): string[] {
  const lists = all.map((one) => (Array.isArray(one) ? one : undefined)).filter((one) => one !== undefined);
  if (lists.length > 0) return lists[Math.min(turn, lists.length - 1)] ?? [];
  return all.filter((one) => typeof one === "string");
}

function readQuestion(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.subarray(at + 1, at + 1 + length).toString());
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 };
}

function answerTo(question: Buffer, type: number, found: string[] | undefined): Buffer {
  const fitting = (found ?? []).filter((address) => (type === TYPE_AAAA ? isIPv6(address) : !isIPv6(address)));
  const header = Buffer.from(question.subarray(0, HEADER_BYTES));
  header.writeUInt16BE(0x8180 | (found === undefined ? NO_SUCH_NAME : 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(fitting.length, 6);
  header.writeUInt32BE(0, 8);
  const records = fitting.map((address) => {
    const bytes = isIPv6(address) ? v6(address) : Buffer.from(address.split(".").map(Number));
    const record = Buffer.alloc(12);
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(type, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt16BE(bytes.byteLength, 10);
    return Buffer.concat([record, bytes]);
  });
  return Buffer.concat([header, question.subarray(HEADER_BYTES), ...records]);
}

/** Without `::` more than once, and without IPv4 inside. */
function v6(address: string): Buffer {
  const [head = "", tail = ""] = address.split("::");
  const before = head.split(":").filter(Boolean);
  const after = tail.split(":").filter(Boolean);
  const groups = [...before, ...Array<string>(8 - before.length - after.length).fill("0"), ...after];
  return Buffer.from(groups.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]));
}
