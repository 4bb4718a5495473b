/** A request that is not passed on: the HTTP status, the rule that it breaks, and the rule in words. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly status: number;
  readonly rule: string;

  constructor(status: number, rule: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.rule = rule;
  }
}

/** What the caller may never do, as opposed to what it wrote wrongly. */
export function forbidden(rule: string, message: string): Refused {
  return new Refused(403, rule, message);
}

export function malformed(rule: string, message: string): Refused {
  return new Refused(400, rule, message);
}

export function tooLarge(bytesMax: number): Refused {
  return new Refused(413, "body_too_large", `A body here has at most ${bytesMax} bytes`);
}
