// What is said on a socket once it is open, and what the other side's words mean. Pure.
import type { ProbeOutcome } from "#schemas/wire/probe.ts";

export type Dialogue = Readonly<{
  /** Said as soon as the connection stands; without it, a connection that stands is the answer. */
  first: Uint8Array;
  /** Given all that has come so far: what to say next, or how it ended. Undefined: more has to come. */
  heard: (received: Uint8Array, ended: boolean) => ProbeOutcome | Uint8Array | undefined;
}>;

/** Any word back shows that a packet went out and another came in. */
export function anyAnswer(first: Uint8Array): Dialogue {
  return { first, heard: (received, ended) => (received.byteLength > 0 ? "answered" : ended ? "denied" : undefined) };
}

/** A question for an address of the name, as every resolver takes it. */
export function dnsQuestion(name: string): Uint8Array {
  const labels = name.split(".").flatMap((label) => [label.length, ...Buffer.from(label, "latin1")]);
  const header = [0x70, 0x69, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
  return Uint8Array.from([...header, ...labels, 0, 0, 1, 0, 1]);
}

/** CONNECT: a proxy that opens the way has let the host through. */
export function proxyConnect(host: string, port: number): Dialogue {
  return {
    first: connectRequest(host, port),
    heard: (received, ended) => (statusOf(received) === undefined && !ended ? undefined : outcomeOf(received)),
  };
}

/** CONNECT to one host, then a TLS greeting for another: only what comes after the greeting counts. */
export function proxyServerName(host: string, port: number, serverName: string): Dialogue {
  let greetedAt: number | undefined;
  return {
    first: connectRequest(host, port),
    heard: (received, ended) => {
      if (greetedAt !== undefined) return received.byteLength > greetedAt ? "answered" : ended ? "denied" : undefined;
      const end = headEnd(received);
      if (end === undefined) return ended ? "denied" : undefined;
      if (outcomeOf(received) === "denied") return "denied";
      greetedAt = end;
      return clientHello(serverName);
    },
  };
}

/** A plain request for one host that names another in its Host header. */
export function proxyHost(host: string, port: number, hostHeader: string): Dialogue {
  const request = `GET http://${authority(host, port)}/ HTTP/1.1\r\nHost: ${hostHeader}\r\nConnection: close\r\n\r\n`;
  return {
    first: Buffer.from(request, "latin1"),
    heard: (received, ended) => {
      const status = statusOf(received);
      if (status === undefined || (headEnd(received) === undefined && !ended)) return ended ? "denied" : undefined;
      return isOfProxy(received) || isDenied(status) ? "denied" : "answered";
    },
  };
}

function connectRequest(host: string, port: number): Uint8Array {
  const target = authority(host, port);
  return Buffer.from(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`, "latin1");
}

function authority(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function outcomeOf(received: Uint8Array): ProbeOutcome {
  const status = statusOf(received);
  return status !== undefined && status >= 200 && status < 300 ? "answered" : "denied";
}

/** The proxy names the reason of what it refuses, also of what it could not reach. */
function isOfProxy(received: Uint8Array): boolean {
  return /\r\nx-pistis-reason:/i.test(Buffer.from(received).toString("latin1"));
}

/** 400: the proxy takes no such request; 421: the request names another host. Any other comes from beyond the proxy. */
function isDenied(status: number): boolean {
  return [400, 403, 407, 421].includes(status);
}

function statusOf(received: Uint8Array): number | undefined {
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(Buffer.from(received.subarray(0, 20)).toString("latin1"))?.[1];
  return status === undefined ? undefined : Number(status);
}

function headEnd(received: Uint8Array): number | undefined {
  const at = Buffer.from(received).indexOf("\r\n\r\n");
  return at < 0 ? undefined : at + 4;
}

/** The smallest TLS 1.2 greeting that names a server. */
function clientHello(serverName: string): Uint8Array {
  const name = [...Buffer.from(serverName, "latin1")];
  const entry = [0, ...sized(name, 2)];
  const serverNameExtension = [0, 0, ...sized(sized(entry, 2), 2)];
  const groups = [0, 10, ...sized(sized([0, 29, 0, 23], 2), 2)];
  const signatures = [0, 13, ...sized(sized([4, 3, 4, 1], 2), 2)];
  const random = new Array<number>(32).fill(0x70);
  const ciphers = sized([0xc0, 0x2b, 0xc0, 0x2f, 0x00, 0x9c], 2);
  const extensions = sized([...serverNameExtension, ...groups, ...signatures], 2);
  const body = [3, 3, ...random, 0, ...ciphers, 1, 0, ...extensions];
  return Uint8Array.from([22, 3, 1, ...sized([1, ...sized(body, 3)], 2)]);
}

function sized(bytes: readonly number[], lengthBytes: number): number[] {
  const length = Array.from(
    { length: lengthBytes },
    (_, index) => (bytes.length >> (8 * (lengthBytes - 1 - index))) & 255,
  );
  return [...length, ...bytes];
}
