import { expect } from "chai";
import { createUser, fromPublic, fromSeed } from "nkeys.js";
import { getEd25519Helper } from "nkeys.js/lib/helper.js";
import { ed25519, signNatively } from "./ed25519.ts";

const bytes = (hex: string) => new Uint8Array(Buffer.from(hex, "hex"));
const hex = (value: Uint8Array) => Buffer.from(value).toString("hex");

/** RFC 8032, 7.1, test 2. */
const SEED = bytes("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
const PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
const SIGNATURE =
  "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

describe("signatures of NATS users", () => {
  const library = getEd25519Helper();

  it("are those of RFC 8032", () => {
    const { publicKey, secretKey } = ed25519.fromSeed(SEED);
    expect(hex(publicKey)).to.equal(PUBLIC);
    expect(hex(ed25519.sign(bytes("72"), secretKey))).to.equal(SIGNATURE);
    expect(ed25519.verify(bytes("72"), bytes(SIGNATURE), publicKey)).to.equal(true);
    expect(ed25519.verify(bytes("73"), bytes(SIGNATURE), publicKey)).to.equal(false);
  });

  it("are the same, byte for byte, as those of the library that they stand in for", () => {
    for (let round = 0; round < 20; round++) {
      const seed = ed25519.randomBytes(32);
      const theirs = library.fromSeed(seed);
      expect(ed25519.fromSeed(seed)).to.deep.equal({ publicKey: theirs.publicKey, secretKey: theirs.secretKey });
      const data = ed25519.randomBytes(round * 7);
      expect(ed25519.sign(data, theirs.secretKey)).to.deep.equal(library.sign(data, theirs.secretKey));
    }
  });

  it("are what the library's own keys sign with", () => {
    signNatively();
    const user = createUser();
    const again = fromSeed(user.getSeed());
    expect(again.getPublicKey()).to.equal(user.getPublicKey());
    expect(fromPublic(user.getPublicKey()).verify(bytes("72"), again.sign(bytes("72")))).to.equal(true);
  });
});
