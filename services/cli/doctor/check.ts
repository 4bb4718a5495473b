/** One line of `pistis doctor`. `missing` stops Pistis from working, `warn` does not. */
export type Check = Readonly<{
  name: string;
  status: "ok" | "warn" | "missing";
  found: string;
  /** How to get it, for what is not ok. */
  next?: string;
}>;

export function ok(name: string, found: string): Check {
  return { name, status: "ok", found };
}

export function warn(name: string, found: string, next: string): Check {
  return { name, status: "warn", found, next };
}

export function missing(name: string, found: string, next: string): Check {
  return { name, status: "missing", found, next };
}
