// A host and a port as people write them and as a sandbox asks for them, in one normal form, so that two spellings of
// one host never differ and two hosts never look alike: lower case, no trailing dot, punycode, IP literals as the URL
// standard writes them (0x7f.1 is 127.0.0.1).

export type Authority = Readonly<{ host: string; port: number | undefined }>;

const AUTHORITY_CHARACTERS_MAX = 300;
const PARTS = /^(\[[0-9a-fA-F:.]{2,45}\]|[^\s[\]:/\\?#@%*<>^|]+)(?::(\d{1,5}))?$/u;
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
const PORT_MAX = 65_535;

/** `host` or `host:port`; undefined for anything else, a wildcard included. */
export function parseAuthority(text: string): Authority | undefined {
  if (text.length > AUTHORITY_CHARACTERS_MAX) return undefined;
  const [, rawHost = "", rawPort] = PARTS.exec(text) ?? [];
  const host = normalHost(rawHost);
  if (host === undefined) return undefined;
  if (rawPort === undefined) return { host, port: undefined };
  const port = Number(rawPort);
  return port >= 1 && port <= PORT_MAX ? { host, port } : undefined;
}

/** The normal form of a host name or an IP literal (IPv6 without brackets); undefined when it is neither. */
export function normalHost(text: string): string | undefined {
  const url = `http://${text}/`;
  if (text === "" || !URL.canParse(url)) return undefined;
  const { hostname, username, password, port, pathname } = new URL(url);
  if (username !== "" || password !== "" || port !== "" || pathname !== "/") return undefined;
  if (hostname.startsWith("[")) return hostname.slice(1, -1);
  const host = hostname.replace(/\.$/, "");
  return host.length <= 253 && host.split(".").every((label) => LABEL.test(label)) ? host : undefined;
}

export function authorityText({ host, port }: Authority): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === undefined ? name : `${name}:${port}`;
}
