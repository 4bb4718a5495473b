// Addresses as the kernel takes them. Pure.

const AF_INET = 2;
const AF_INET6 = 10;

export type SocketAddress = Readonly<{ family: number; bytes: Uint8Array }>;

/** `host` is an IPv4 or IPv6 address that was checked before; `scope` is the interface of a link-local one. */
export function socketAddress(host: string, port: number, scope = 0): SocketAddress {
  const isV6 = host.includes(":");
  const view = new DataView(new ArrayBuffer(isV6 ? 28 : 16));
  view.setUint16(0, isV6 ? AF_INET6 : AF_INET, true);
  view.setUint16(2, port);
  const bytes = new Uint8Array(view.buffer);
  bytes.set(isV6 ? ipv6Bytes(host) : ipv4Bytes(host), isV6 ? 8 : 4);
  if (isV6) view.setUint32(24, scope, true);
  return { family: isV6 ? AF_INET6 : AF_INET, bytes };
}

export function isLoopback(host: string): boolean {
  return host.includes(":") ? ipv6Bytes(host).join() === ipv6Bytes("::1").join() : host.startsWith("127.");
}

function ipv4Bytes(text: string): number[] {
  return text.split(".").map(Number);
}

function ipv6Bytes(text: string): number[] {
  const [head = "", tail] = text.split("::");
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  return [...before, ...new Array<number>(Math.max(0, 16 - before.length - after.length)).fill(0), ...after];
}

function groups(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    if (group.includes(".")) return ipv4Bytes(group);
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}
