// Where a repository is fetched from, and with what. A URL is written by a person, so it is read strictly.
import { isAbsolute } from "node:path";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { Refusal } from "#shared/errors/errors.ts";

export type GitSource = Readonly<{
  /** As git is given it: without user information. */
  location: string;
  protocol: "file" | "https" | "http" | "ssh" | "git";
  /** What `origin` is in the sandbox: never a path of the server and never a secret. */
  origin: string;
  /** Sent as a header, by the environment only. */
  authorization: { scope: string; header: string } | undefined;
}>;

type Credentials = PistisConfig["git"]["credentials"];

/** Throws Refusal `repository_url_invalid`. */
export function gitSource(url: string, credentials: Credentials): GitSource {
  if (isAbsolute(url)) return localSource(url);
  const scpLike = /^(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!\/\/)[^\s-][^\s]*$/.test(url);
  if (scpLike) return { location: url, protocol: "ssh", origin: url, authorization: undefined };
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  switch (parsed?.protocol) {
    case "file:":
      return localSource(decodeURIComponent(parsed.pathname));
    case "https:":
    case "http:":
      return webSource(parsed, credentials);
    case "ssh:":
    case "git:":
      parsed.password = "";
      return plainSource(parsed.href, parsed.protocol === "ssh:" ? "ssh" : "git");
    default:
      throw new Refusal("repository_url_invalid", `${url} is no address of a repository`, {
        next: "Use https://host/owner/repository, ssh://host/path, user@host:path or an absolute path on the server.",
      });
  }
}

function plainSource(location: string, protocol: GitSource["protocol"]): GitSource {
  return { location, protocol, origin: location, authorization: undefined };
}

/** A neutral name in place of the server's path; `.invalid` is never resolved. */
function localSource(path: string): GitSource {
  const name = (
    path
      .replace(/\/(\.git)?\/*$/, "")
      .split("/")
      .at(-1) ?? ""
  ).replace(/[^A-Za-z0-9._-]/g, "-");
  const origin = `https://pistis.invalid/${name || "repository"}`;
  return { location: path, protocol: "file", origin, authorization: undefined };
}

function webSource(url: URL, credentials: Credentials): GitSource {
  url.username = "";
  url.password = "";
  const credential = credentials.find(({ host }) => host === url.host || host === url.hostname);
  const source = plainSource(url.href, url.protocol === "https:" ? "https" : "http");
  if (credential === undefined) return source;
  const basic = Buffer.from(`${credential.username}:${credential.token}`).toString("base64");
  return { ...source, authorization: { scope: `${url.origin}/`, header: `Authorization: Basic ${basic}` } };
}
