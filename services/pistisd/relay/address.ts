// Where the relay is: a Unix socket that was bound into the sandbox, or a host on the network.
import { Refusal } from "#shared/errors/errors.ts";

export type RelayAddress = Readonly<{ kind: "unix"; socketPath: string }> | Readonly<{ kind: "network"; url: URL }>;

/** Throws Refusal `bad_relay_address`. */
export function parseRelayAddress(text: string): RelayAddress {
  if (text.startsWith("unix:")) {
    const socketPath = text.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
    if (socketPath.startsWith("/")) return { kind: "unix", socketPath };
  } else if (URL.canParse(text)) {
    const url = new URL(text);
    const secure = url.protocol === "https:" || url.protocol === "wss:";
    if (secure || url.protocol === "http:" || url.protocol === "ws:") {
      url.protocol = secure ? "https:" : "http:";
      return { kind: "network", url };
    }
  }
  throw new Refusal("bad_relay_address", `PISTIS_RELAY is "${text}"`, {
    next: "Set it to unix:/path/of/relay.sock, http://host:port or https://host",
  });
}

export function webSocketUrl(address: RelayAddress, path: string): string {
  if (address.kind === "unix") return `ws+unix://${address.socketPath}:${path}`;
  const url = new URL(path, address.url);
  url.protocol = address.url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}
