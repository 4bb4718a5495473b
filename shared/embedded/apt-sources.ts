// Reads the machine's own apt sources, so that a download comes from a mirror that the owner already trusts.

export type AptSource = Readonly<{
  uri: string;
  suite: string;
  components: readonly string[];
  signedBy: string | undefined;
}>;

/** Every binary source of one file: deb822 (`.sources`) or one line per source (`.list`). Disabled ones are left out. */
export function parseAptSources(name: string, text: string): AptSource[] {
  return name.endsWith(".sources") ? text.split(/\n\s*\n/).flatMap(stanza) : text.split("\n").flatMap(line);
}

function stanza(text: string): AptSource[] {
  const field = (key: string) => new RegExp(`^${key}:[ \\t]*(.*)$`, "im").exec(text)?.[1]?.trim();
  const words = (key: string) => field(key)?.split(/\s+/).filter(Boolean) ?? [];
  if (!words("Types").includes("deb") || field("Enabled")?.toLowerCase() === "no") return [];
  const signedBy = field("Signed-By");
  return words("URIs").flatMap((uri) =>
    words("Suites").map((suite) => ({ uri, suite, components: words("Components"), signedBy: keyFile(signedBy) })),
  );
}

function line(text: string): AptSource[] {
  const match = /^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+?)\s*$/.exec(text.replace(/#.*/, ""));
  if (match === null) return [];
  const [, options = "", uri = "", suite = "", components = ""] = match;
  return [{ uri, suite, components: components.split(/\s+/), signedBy: keyFile(/signed-by=(\S+)/.exec(options)?.[1]) }];
}

/** Only a key file can be named again; without one apt's own trusted keys are used. */
function keyFile(value: string | undefined): string | undefined {
  return value?.startsWith("/") ? value : undefined;
}
