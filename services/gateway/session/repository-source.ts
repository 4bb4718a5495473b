// What may be named as a session's repository. The ledger keeps it for ever and shows it to everyone, so a
// credential in it is refused here; and git runs on the server, so is all that git takes as an option or a program.
import type { RepositorySource } from "#schemas/ledger/parts.ts";
import { Refusal } from "#shared/errors/errors.ts";

const PROTOCOLS = ["https:", "http:", "ssh:", "git:"];
const CREDENTIAL_PARAMETER = /token|key|secret|passw|auth|credential/i;
/** user@host:path, as git and ssh write it. */
const SCP_FORM = /^([^/@]*)@([^/@:]+):(?!\/\/)(.+)$/;

/** Throws a Refusal `repository_url_has_credentials`, `repository_url_invalid` or `repository_path_not_absolute`. */
export function checkRepositorySource({ url, ref }: RepositorySource): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
  const control = /[\u0000-\u0020\u007f]/;
  if (control.test(url) && !url.startsWith("/"))
    throw invalid("The repository's URL holds a space or a control character");
  if (url.includes("\0") || url.startsWith("-") || /^[a-z0-9+.-]+::/i.test(url))
    throw invalid("This is no repository's URL");
  if (ref !== undefined && (control.test(ref) || ref.startsWith("-")))
    throw invalid("This is no name of a branch, tag or commit");
  if (url.startsWith("/")) return;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) checkUrl(url);
  else checkScpForm(url);
}

function checkScpForm(text: string): void {
  const scp = SCP_FORM.exec(text);
  if (scp === null) throw notAbsolute();
  if (scp[1]?.includes(":")) throw hasCredentials();
}

function checkUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.hostname === "") throw invalid("The repository's URL cannot be read");
  if (!PROTOCOLS.includes(url.protocol)) throw invalid(`Repositories are not copied over ${url.protocol}//`);
  if (url.password !== "" || (url.username !== "" && url.protocol !== "ssh:")) throw hasCredentials();
  if ([...url.searchParams.keys()].some((name) => CREDENTIAL_PARAMETER.test(name))) throw hasCredentials();
  if (url.search !== "" || url.hash !== "") throw invalid("A repository's URL has no query and no fragment");
}

function hasCredentials(): Refusal {
  const next = "Leave the credential out of the URL and put it under git.credentials in pistis.json.";
  return new Refusal("repository_url_has_credentials", "The repository's URL holds a credential", { next });
}

function notAbsolute(): Refusal {
  const next = "Give the absolute path of a folder on the server, or an https:// or ssh:// URL.";
  return new Refusal("repository_path_not_absolute", "The repository's path is not absolute", { next });
}

function invalid(message: string): Refusal {
  const next = "Give an https:// or ssh:// URL, git's user@host:path form, or an absolute path on the server.";
  return new Refusal("repository_url_invalid", message, { next });
}
