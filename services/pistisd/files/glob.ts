/** A path pattern such as `**\/*.ts` or `src/{a,b}/?.js`; without a slash it is matched against the name alone. */
export function globMatcher(glob: string): (path: string) => boolean {
  const pattern = new RegExp(`^${source(glob)}$`, "s");
  const nameOnly = !glob.includes("/");
  return (path) => pattern.test(nameOnly ? path.slice(path.lastIndexOf("/") + 1) : path);
}

function source(glob: string): string {
  let depth = 0;
  return glob.replace(/\*\*\/|\*\*|\*|\?|\[!?[^\]/]+\]|[{},]|[.+^$()|[\]\\]/g, (token) => {
    if (token === "**/") return "(?:[^/]+/)*";
    if (token === "**") return ".*";
    if (token === "*") return "[^/]*";
    if (token === "?") return "[^/]";
    if (token === "{") return ++depth > 0 ? "(?:" : "";
    if (token === "}") return depth > 0 && depth-- > 0 ? ")" : "\\}";
    if (token === ",") return depth > 0 ? "|" : ",";
    if (token.length > 1) return token.replace(/^\[!/, "[^").replaceAll("\\", "\\\\");
    return `\\${token}`;
  });
}
