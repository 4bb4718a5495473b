// What git says when it fails is text. This is the one place that reads it.
import { Refusal, Retryable } from "#shared/errors/errors.ts";

const RETRY_MS = 10_000;

type Kind = Readonly<{ code: string; says: RegExp; next: string; mayPass?: true }>;

const KINDS: readonly Kind[] = [
  {
    code: "auth_failed",
    says: /Authentication failed|could not read (Username|Password)|terminal prompts disabled|Permission denied|HTTP 40[13]|error: 40[13]|Host key verification failed|Invalid credentials/i,
    next: 'Give the server access: add the host with "${TOKEN}" to git.credentials in pistis.json, or for ssh a key and a known host to the user that runs Pistis.',
  },
  {
    code: "repository_not_found",
    says: /Repository not found|repository '.*' not found|does not appear to be a git repository|does not exist|not a git repository|No such file or directory|error: 404/i,
    next: "Check the address. A private repository that the server has no access to also looks like this: see git.credentials in pistis.json.",
  },
  {
    code: "disk_full",
    says: /No space left on device|Disk quota exceeded/i,
    next: "Free disk space in the state folder of the server.",
    mayPass: true,
  },
  {
    code: "host_unreachable",
    says: /Could not resolve host|Failed to connect|Connection (refused|timed out|reset)|unable to access|Network is unreachable|early EOF|RPC failed|unexpected disconnect/i,
    next: "Check that the server reaches the host, then post a message to try again. What was fetched in full is kept.",
    mayPass: true,
  },
  {
    code: "ref_not_found",
    says: /couldn't find remote ref|not our ref|unadvertised object|upload-pack: not our ref/i,
    next: "Check the branch, tag or commit.",
  },
];

/** `output` is what git wrote to standard error, without secrets. */
export function gitFailure(doing: string, output: string, cause?: unknown): Refusal | Retryable {
  const kind = KINDS.find(({ says }) => says.test(output));
  const message = `${doing} failed: ${lastLines(output)}`;
  if (kind === undefined) {
    return new Refusal("clone_failed", message, { cause, next: "Try the same git command on the server by hand." });
  }
  const options = { cause, next: kind.next };
  return kind.mayPass === true
    ? new Retryable(kind.code, message, { ...options, retryAfterMs: RETRY_MS })
    : new Refusal(kind.code, message, options);
}

function lastLines(output: string): string {
  const lines = output.split(/[\r\n]+/).filter((line) => line.trim() !== "" && !/^hint:/.test(line));
  return lines.slice(-4).join(" ").slice(-1_000) || "git said nothing";
}
