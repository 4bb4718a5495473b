import { expect } from "chai";
import { parseRelayAddress, webSocketUrl } from "./address.ts";

const rows: Array<[given: string, webSocket: string]> = [
  ["unix:/run/pistis/relay.sock", "ws+unix:///run/pistis/relay.sock:/v1/connect"],
  ["unix:///run/pistis/relay.sock", "ws+unix:///run/pistis/relay.sock:/v1/connect"],
  ["http://10.0.0.1:7000", "ws://10.0.0.1:7000/v1/connect"],
  ["ws://10.0.0.1:7000", "ws://10.0.0.1:7000/v1/connect"],
  ["https://relay.example.org", "wss://relay.example.org/v1/connect"],
];

describe("a relay's address", () => {
  for (const [given, webSocket] of rows) {
    it(`${given} is reached at ${webSocket}`, () => {
      expect(webSocketUrl(parseRelayAddress(given), "/v1/connect")).to.equal(webSocket);
    });
  }

  for (const wrong of ["", "relay", "unix:relay.sock", "ftp://host", "10.0.0.1:7000"]) {
    it(`"${wrong}" is refused with what to set`, () => {
      expect(() => parseRelayAddress(wrong))
        .to.throw()
        .with.property("code", "bad_relay_address");
    });
  }
});
