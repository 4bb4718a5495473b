import { WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";

/**
 * A path pattern such as `**\/*.ts` or `src/{a,b}/?.js`; without a slash it is matched against the name alone.
 * Throws Refusal `bad_pattern`.
 */
export function globMatcher(glob: string): (path: string) => boolean {
  const pattern = compile(glob);
  const nameOnly = !glob.includes("/");
  return (path) => pattern.test(nameOnly ? path.slice(path.lastIndexOf("/") + 1) : path);
}

function compile(glob: string): RegExp {
  try {
    return new RegExp(`^${source(glob, hasPairs(glob))}$`, "s");
  } catch (cause) {
    throw new Refusal(WireCode.badPattern, `The glob "${glob}" is none`, { cause });
  }
}

/** Braces that do not pair stand for themselves. */
function hasPairs(glob: string): boolean {
  let depth = 0;
  for (const character of glob) {
    if (character === "{") depth++;
    if (character === "}" && --depth < 0) return false;
  }
  return depth === 0;
}

function source(glob: string, pairs: boolean): string {
  let depth = 0;
  return glob.replace(/\*\*\/|\*\*|\*|\?|\[!?[^\]/]+\]|[{},]|[.+^$()|[\]\\]/g, (token) => {
    if (token === "**/") return "(?:[^/]+/)*";
    if (token === "**") return ".*";
    if (token === "*") return "[^/]*";
    if (token === "?") return "[^/]";
    if (pairs && token === "{") return ++depth > 0 ? "(?:" : "";
    if (pairs && token === "}") return depth-- > 0 ? ")" : "";
    if (token === ",") return depth > 0 ? "|" : ",";
    if (token.length > 1) return token.replace(/^\[!/, "[^").replaceAll("\\", "\\\\");
    return `\\${token}`;
  });
}
