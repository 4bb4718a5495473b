// The signatures of NATS users by Node's own Ed25519. The library's is plain JavaScript: of the processor time that
// `pistis dev` and its first 200 commands take, 7 % (measured).
import { createPrivateKey, createPublicKey, randomBytes, sign, verify } from "node:crypto";
// The library's own switch, which it does not export from its index.
import "nkeys.js";
import { getEd25519Helper, setEd25519Helper } from "nkeys.js/lib/helper.js";

/** RFC 8410: what stands before the 32 bytes of a key. */
const PRIVATE_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const PUBLIC_HEAD = Buffer.from("302a300506032b6570032100", "hex");
const KEY_BYTES = 32;

const privateKey = (seed: Uint8Array) =>
  createPrivateKey({ key: Buffer.concat([PRIVATE_HEAD, seed]), format: "der", type: "pkcs8" });

/** The form that the library works with: `secretKey` is the seed and the public key. */
export const ed25519 = {
  randomBytes: (length: number): Uint8Array => new Uint8Array(randomBytes(length)),
  fromSeed: (seed: Uint8Array): { publicKey: Uint8Array; secretKey: Uint8Array } => {
    const der = createPublicKey(privateKey(seed)).export({ format: "der", type: "spki" });
    const publicKey = new Uint8Array(der.subarray(PUBLIC_HEAD.length));
    return { publicKey, secretKey: new Uint8Array(Buffer.concat([seed, publicKey])) };
  },
  sign: (data: Uint8Array, secretKey: Uint8Array): Uint8Array =>
    new Uint8Array(sign(null, data, privateKey(secretKey.subarray(0, KEY_BYTES)))),
  verify: (data: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean => {
    const key = createPublicKey({ key: Buffer.concat([PUBLIC_HEAD, publicKey]), format: "der", type: "spki" });
    return verify(null, data, key, signature);
  },
};

/** From now on every key of the library signs with it. */
export function signNatively(): void {
  setEd25519Helper({ ...getEd25519Helper(), ...ed25519 });
}
