import { expect } from "chai";
import { anyAnswer, type Dialogue, dnsQuestion, proxyConnect, proxyHost, proxyServerName } from "./dialogue.ts";

const bytes = (text: string) => Buffer.from(text, "latin1");
const heard = (dialogue: Dialogue, text: string, ended = false) => dialogue.heard(bytes(text), ended);

describe("a probe's dialogues", () => {
  it("take any word back as an answer, and a closed connection as a denial", () => {
    expect(heard(anyAnswer(bytes("?")), "")).to.equal(undefined);
    expect(heard(anyAnswer(bytes("?")), "!")).to.equal("answered");
    expect(heard(anyAnswer(bytes("?")), "", true)).to.equal("denied");
  });

  it("ask a resolver as every resolver takes it", () => {
    const question = Buffer.from(dnsQuestion("canary.invalid"));
    expect(question.readUInt16BE(4)).to.equal(1);
    expect(question.subarray(12).toString("latin1")).to.equal("\x06canary\x07invalid\0\0\x01\0\x01");
  });

  it("CONNECT: a way that is opened has let the host through", () => {
    const dialogue = proxyConnect("blocked.test", 443);
    expect(Buffer.from(dialogue.first).toString()).to.equal(
      "CONNECT blocked.test:443 HTTP/1.1\r\nHost: blocked.test:443\r\n\r\n",
    );
    expect(heard(dialogue, "HTTP/1.1")).to.equal(undefined);
    expect(heard(dialogue, "HTTP/1.1 200 OK\r\n")).to.equal("answered");
    expect(heard(dialogue, "HTTP/1.1 403 Forbidden\r\n")).to.equal("denied");
    expect(heard(dialogue, "", true)).to.equal("denied");
  });

  it("SNI mismatch: only what comes after the greeting counts", () => {
    const dialogue = proxyServerName("allowed.test", 443, "blocked.test");
    const opened = "HTTP/1.1 200 OK\r\n\r\n";
    const greeting = heard(dialogue, opened);
    if (!(greeting instanceof Uint8Array)) throw new Error("No greeting was said");
    expect(greeting[0]).to.equal(22);
    expect(Buffer.from(greeting).readUInt16BE(3)).to.equal(greeting.byteLength - 5);
    expect(Buffer.from(greeting).toString("latin1")).to.include("blocked.test");
    expect(heard(dialogue, opened)).to.equal(undefined);
    expect(heard(dialogue, opened, true)).to.equal("denied");
    expect(heard(dialogue, `${opened}\x16`)).to.equal("answered");
    expect(heard(proxyServerName("allowed.test", 443, "x.test"), "HTTP/1.1 403 No\r\n\r\n")).to.equal("denied");
  });

  it("Host mismatch: what comes from beyond the proxy got through", () => {
    for (const [status, outcome] of [
      [200, "answered"],
      [404, "answered"],
      [502, "answered"],
      [403, "denied"],
      [421, "denied"],
    ] as const) {
      expect(heard(proxyHost("allowed.test", 80, "blocked.test"), `HTTP/1.1 ${status} X\r\n\r\n`)).to.equal(outcome);
    }
    const unresolved = "HTTP/1.1 503 X\r\nX-Pistis-Reason: name_unresolved\r\n";
    expect(heard(proxyHost("allowed.test", 80, "blocked.test"), unresolved)).to.equal(undefined);
    expect(heard(proxyHost("allowed.test", 80, "blocked.test"), `${unresolved}\r\n`)).to.equal("denied");
  });
});
