// What pistis.json may hold at a key, in words, out of the same JSON Schema that editors use.
import { z } from "zod";
import { pistisConfig } from "#schemas/config/pistis-config.ts";

export type Path = readonly (string | number)[];
type Node = z.core.JSONSchema.BaseSchema;

const root: Node = z.toJSONSchema(pistisConfig, { io: "input" });

/** The schema at `path`; `value` is the whole file and tells which form of a union is meant. */
export function schemaAt(path: Path, value: unknown): Node | undefined {
  let node: Node | undefined = root;
  let here = value;
  for (const key of path) {
    node = node && childOf(formOf(node, here), key);
    here = memberOf(here, key);
  }
  return node && formOf(node, here);
}

function childOf(node: Node, key: string | number): Node | undefined {
  const child = typeof key === "number" ? node.items : (node.properties?.[key] ?? node.additionalProperties);
  return typeof child === "object" && !Array.isArray(child) ? child : undefined;
}

/** Of a union: the form whose constants the value has. */
function formOf(node: Node, value: unknown): Node {
  const forms = (node.oneOf ?? []).filter((form): form is Node => typeof form === "object");
  return forms.find((form) => hasConstantsOf(form, value)) ?? node;
}

function hasConstantsOf(form: Node, value: unknown): boolean {
  return Object.entries(form.properties ?? {}).every(([key, child]) => {
    if (typeof child !== "object") return true;
    const constants = child.enum ?? (child.const === undefined ? undefined : [child.const]);
    return constants === undefined || constants.some((constant) => constant === memberOf(value, key));
  });
}

export function memberOf(value: unknown, key: string | number): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.entries(value).find(([name]) => name === String(key))?.[1];
}

export function keysAt(path: Path, value: unknown): string[] {
  return Object.keys(schemaAt(path, value)?.properties ?? {});
}

/** For example `a whole number from 0 to 65535`. */
export function allowedAt(path: Path, value: unknown): string {
  const node = schemaAt(path, value);
  if (node === undefined) return "nothing";
  const what = kindOf(node);
  return node.description === undefined ? what : `${what} (${node.description})`;
}

function kindOf(node: Node): string {
  if (node.oneOf !== undefined) return "one of several forms, told apart by their keys";
  if (node.const !== undefined) return JSON.stringify(node.const);
  if (node.enum !== undefined) return oneOf(node.enum.map((value) => JSON.stringify(value)));
  switch (node.type) {
    case "integer":
      return `a whole number${rangeOf(node)}`;
    case "number":
      return `a number${rangeOf(node)}`;
    case "boolean":
      return "true or false";
    case "string":
      return textOf(node);
    case "array":
      return "a list";
    default:
      return objectOf(node);
  }
}

function oneOf(values: readonly string[]): string {
  return values.length === 1 ? String(values[0]) : `one of ${values.join(", ")}`;
}

function rangeOf({ minimum, maximum, exclusiveMinimum }: Node): string {
  const above = exclusiveMinimum === undefined ? "" : ` above ${exclusiveMinimum}`;
  const from = minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? above : ` from ${minimum}`;
  return maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? from : `${from} to ${maximum}`;
}

function textOf(node: Node): string {
  if (node.format === "uri") return "a URL";
  const length = node.minLength === undefined ? "a text" : "a text that is not empty";
  return node.pattern === undefined ? length : `${length} that matches ${node.pattern}`;
}

function objectOf(node: Node): string {
  const keys = Object.keys(node.properties ?? {});
  return keys.length === 0 ? "an object" : `an object with the keys ${keys.join(", ")}`;
}
