// Three kinds of failure, told apart by what the runtime does with them:
// a Refusal is answered, a Retryable is redelivered, a Fatal is parked.
// Callers branch on `code`; the text is for people and may change freely.

type Options = ErrorOptions & { next?: string };

abstract class PistisError extends Error {
  readonly code: string;
  /** What the person who reads this should do next. */
  readonly next: string | undefined;

  constructor(code: string, message: string, options?: Options) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    this.next = options?.next;
  }
}

/** The request breaks a rule of the domain. Retrying cannot help. */
export class Refusal extends PistisError {}

/** Something outside us failed and may work later. */
export class Retryable extends PistisError {
  readonly retryAfterMs: number;

  constructor(code: string, message: string, options: Options & { retryAfterMs: number }) {
    super(code, message, options);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Our own assumption is broken. A person has to look. */
export class Fatal extends PistisError {}

export type Failure = { code: string; message: string; next?: string };

/** Any thrown value as plain data, for an event, an answer or a log line. Codes of our own errors are kept. */
export function failureOf(error: unknown): Failure {
  if (error instanceof PistisError) {
    return { code: error.code, message: error.message, ...(error.next === undefined ? {} : { next: error.next }) };
  }
  return { code: "internal", message: error instanceof Error ? error.message : String(error) };
}
