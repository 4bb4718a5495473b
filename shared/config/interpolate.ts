// `${NAME}` in a value is taken from the environment; `$${NAME}` stands for the text itself. Where a number or a
// truth value is wanted, a value that is one variable alone becomes one.
import { memberOf, type Path, schemaAt } from "./allowed.ts";

export type Environment = Readonly<{ [name: string]: string | undefined }>;
export type UnsetVariable = Readonly<{ path: Path; variable: string }>;

const REFERENCE = /\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

/** `fromEnvironment` tells of a key whether its value is, in part, a variable's: such a value is never shown. */
export function interpolate(
  file: unknown,
  environment: Environment,
): { value: unknown; unset: UnsetVariable[]; fromEnvironment: (path: Path) => string | undefined } {
  const unset: UnsetVariable[] = [];
  const visit = (value: unknown, path: Path): unknown => {
    if (typeof value === "string") {
      for (const variable of variablesIn(value)) {
        if (environment[variable] === undefined) unset.push({ path, variable });
      }
      return typed(value, replaced(value, environment), path, file);
    }
    if (Array.isArray(value)) return value.map((member, index) => visit(member, [...path, index]));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, visit(member, [...path, key])]));
  };
  const value = visit(file, []);
  return { value, unset, fromEnvironment: (path) => variablesAt(file, path) };
}

function variablesIn(text: string): string[] {
  return [...text.matchAll(REFERENCE)].flatMap(([, escaped, name]) => (escaped === "" && name ? [name] : []));
}

function replaced(text: string, environment: Environment): string {
  return text.replace(REFERENCE, (whole, escaped: string, name: string) =>
    escaped === "$" ? whole.slice(1) : (environment[name] ?? ""),
  );
}

function typed(written: string, text: string, path: Path, file: unknown): unknown {
  if (!/^\$\{\w+\}$/.test(written)) return text;
  const type = schemaAt(path, file)?.type;
  if ((type === "integer" || type === "number") && /^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

function variablesAt(file: unknown, path: Path): string | undefined {
  const written = path.reduce<unknown>(memberOf, file);
  const names = typeof written === "string" ? variablesIn(written) : [];
  return names.length === 0 ? undefined : names.map((name) => `\${${name}}`).join(" and ");
}
