// The path and the query of a request, taken apart once and never passed on as they came. A path has one spelling only:
// what another reader could understand differently (an escape, a dot segment, a second slash, a whole URL) is refused.
import { API_VERSION } from "#shared/docker/names.ts";
import { malformed } from "./refused.ts";

export type Target = Readonly<{ path: string; query: Readonly<Record<string, string>> }>;

const PATH = /^(?:\/[A-Za-z0-9_.:@-]+)+$/;
/** Clients escape an image's name or not; it alone may hold these. */
const IMAGE = /^((?:\/v[^/]+)?\/images\/)(.+)(\/json)$/;
const VERSION = /^\/v[0-9][^/]*(?=\/)/;
const QUERY_NAME = /^[A-Za-z]{1,40}$/;
const QUERY_VALUE = /^[A-Za-z0-9\-._~!*'()+%:@,/]*$/;

/** Throws Refused 400 with the rule that the target breaks. */
export function readTarget(url: string, charactersMax: number): Target {
  if (url.length > charactersMax) throw malformed("target_too_long", "The path and query are too long");
  const mark = url.indexOf("?");
  const path = plainImage(mark === -1 ? url : url.slice(0, mark));
  return { path: withoutVersion(checked(path)), query: mark === -1 ? {} : readQuery(url.slice(mark + 1)) };
}

function plainImage(path: string): string {
  const [, before = "", name = "", after = ""] = IMAGE.exec(path) ?? [];
  if (name === "") return path;
  return before + name.replaceAll(/%2f/gi, "/").replaceAll(/%3a/gi, ":").replaceAll("%40", "@") + after;
}

function checked(path: string): string {
  const segments = path.split("/");
  if (!PATH.test(path) || segments.includes(".") || segments.includes("..")) {
    throw malformed("path_unclear", "A path is /name/name, without escapes, dots and doubled slashes");
  }
  return path;
}

/** `/v1.41/...` and `/...` are the same call. Other versions read bodies in other ways. */
function withoutVersion(path: string): string {
  const [prefix] = VERSION.exec(path) ?? [];
  if (prefix === undefined) return path;
  if (prefix !== `/v${API_VERSION}`) throw malformed("api_version", `The only version here is v${API_VERSION}`);
  const rest = path.slice(prefix.length);
  if (VERSION.test(rest)) throw malformed("version_twice", "The version stands once, at the beginning");
  return rest;
}

function readQuery(text: string): Record<string, string> {
  const query = new Map<string, string>();
  for (const part of text.split("&")) {
    const mark = part.indexOf("=");
    const name = part.slice(0, mark);
    if (mark === -1 || !QUERY_NAME.test(name)) throw malformed("query_unclear", "A query is name=value&name=value");
    if (query.has(name)) throw malformed("query_repeated", `The query names ${name} twice`);
    query.set(name, decoded(part.slice(mark + 1)));
  }
  return Object.fromEntries(query);
}

function decoded(value: string): string {
  if (!QUERY_VALUE.test(value)) throw malformed("query_unclear", "A value of the query is not escaped as in a URL");
  try {
    return decodeURIComponent(value.replaceAll("+", " "));
  } catch (cause) {
    if (!(cause instanceof URIError)) throw cause;
    throw malformed("query_unclear", "A value of the query has a broken escape");
  }
}
