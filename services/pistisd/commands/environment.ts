// What a command sees. Built from nothing: of the daemon's own environment only what an image sets for its
// tools is taken over, so no secret of the daemon and no linker setting gets in.

import { PROXY_HOST, PROXY_PORT } from "../egress/way-out.ts";

type Environment = Readonly<Record<string, string>>;

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Tools differ in the case that they read. */
const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"].flatMap((name) => [
  name,
  name.toLowerCase(),
]);
const PROXY_URL = `http://${PROXY_HOST}:${PROXY_PORT}`;
const NOT_PROXIED = "localhost,127.0.0.1,::1";

const TAKEN_OVER = new Set([
  ...["HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "HOSTNAME"],
  ...PROXY_VARIABLES,
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"],
  ...["GOPATH", "GOROOT", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN", "NODE_PATH", "PYTHONPATH", "MANPATH", "PKG_CONFIG_PATH"],
  ...["VIRTUAL_ENV", "CONDA_PREFIX", "npm_config_registry", "PIP_INDEX_URL", "CHROME_BIN"],
]);
/** Such as JAVA_HOME, CARGO_HOME, NODE_VERSION, LC_ALL, XDG_CACHE_HOME. */
const TAKEN_OVER_PATTERN = /^(LC_[A-Z]+|XDG_[A-Z_]+|[A-Z0-9_]+_(HOME|VERSION))$/;
const NEVER = /^(PISTIS|LD_|BUN_|NODE_OPTIONS$|BASH_ENV$|ENV$|BASH_FUNC)/;

/** Nobody answers a question and nobody reads page by page (C73, C75). */
const NOBODY_IS_THERE: Environment = {
  TERM: "dumb",
  PAGER: "cat",
  GIT_PAGER: "cat",
  MANPAGER: "cat",
  SYSTEMD_PAGER: "cat",
  EDITOR: "true",
  VISUAL: "true",
  GIT_EDITOR: "true",
  GIT_SEQUENCE_EDITOR: "true",
  GIT_TERMINAL_PROMPT: "0",
  GIT_ASKPASS: "true",
  SSH_ASKPASS: "false",
  SSH_ASKPASS_REQUIRE: "force",
  GIT_SSH_COMMAND: "ssh -o BatchMode=yes",
  GCM_INTERACTIVE: "never",
  DEBIAN_FRONTEND: "noninteractive",
  APT_LISTCHANGES_FRONTEND: "none",
  NEEDRESTART_MODE: "a",
  CI: "1",
  NO_COLOR: "1",
  npm_config_yes: "true",
  npm_config_fund: "false",
  npm_config_update_notifier: "false",
  PIP_NO_INPUT: "1",
  PIP_DISABLE_PIP_VERSION_CHECK: "1",
  PYTHONUNBUFFERED: "1",
};

export const CALL_MARK = "PISTIS_CALL";

/** The provider says so to a sandbox whose network is not `none`. */
export function hasWayOut(own: Readonly<Record<string, string | undefined>>): boolean {
  return own["PISTIS_EGRESS"] === "1";
}

/** What makes tools use the sandbox's proxy; Node's own fetch and http need to be told to look (C119). */
function proxyEnvironment(): Environment {
  const entries = PROXY_VARIABLES.map((name) => [name, /^no_proxy$/i.test(name) ? NOT_PROXIED : PROXY_URL] as const);
  return { ...Object.fromEntries(entries), NODE_USE_ENV_PROXY: "1" };
}

/** The environment of every command, from that of the daemon. */
export function commandEnvironment(own: Readonly<Record<string, string | undefined>>): Environment {
  const taken = Object.entries(own).flatMap(([name, value]) =>
    value !== undefined && isTakenOver(name) ? [[name, value] as const] : [],
  );
  return {
    HOME: "/root",
    LANG: "C.UTF-8",
    SHELL: "/bin/sh",
    ...Object.fromEntries(taken),
    ...(hasWayOut(own) ? proxyEnvironment() : {}),
    PATH: own["PATH"] || DEFAULT_PATH,
    ...NOBODY_IS_THERE,
  };
}

function isTakenOver(name: string): boolean {
  return !NEVER.test(name) && (TAKEN_OVER.has(name) || TAKEN_OVER_PATTERN.test(name));
}

/** A request may add to the environment, but not what reaches into the daemon's own names or the linker. */
export function mayBeSet(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !/^(PISTIS|LD_)/.test(name);
}
