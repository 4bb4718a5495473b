import { hash, randomBytes, randomFillSync } from "node:crypto";
import { ulid } from "ulid";

export type IdKind = "session" | "message" | "turn" | "reply" | "call" | "sandbox" | "task" | "event" | "interrupt";

const PREFIXES: Record<IdKind, string> = {
  session: "ses",
  message: "msg",
  turn: "trn",
  reply: "rpl",
  call: "cal",
  sandbox: "sbx",
  task: "tsk",
  event: "evt",
  interrupt: "int",
};

/** A new id such as `ses_01J...`: prefix of the kind, then a ULID in lower case, so ids of a kind sort by time. */
export function newId(kind: IdKind): string {
  return `${PREFIXES[kind]}_${ulid(undefined, randomFraction).toLowerCase()}`;
}

// A system call for each of an id's 16 random characters took 20 µs an id, on the way of every append.
const randoms = Buffer.alloc(4_096);
let randomsUsed = randoms.length;

function randomFraction(): number {
  if (randomsUsed === randoms.length) {
    randomFillSync(randoms);
    randomsUsed = 0;
  }
  return randoms.readUInt8(randomsUsed++) / 256;
}

/** A secret of 256 bits in URL-safe text: join tokens, passes, admin tokens. */
export function newSecret(): string {
  return randomBytes(32).toString("base64url");
}

/** Lower-case hexadecimal SHA-256. */
export function sha256(data: Uint8Array | string): string {
  return hash("sha256", data, "hex");
}
