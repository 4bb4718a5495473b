// What the JetStream API answers about something that is not there.
import { NatsError } from "nats";

export const CONSUMER_NOT_FOUND = 10_014;
export const STREAM_NOT_FOUND = 10_059;

/** Whether the server answered that there is none: `code` is one of the above. */
export function isAbsence(code: number, error: unknown): boolean {
  return error instanceof NatsError && error.api_error?.err_code === code;
}

/** The answer, or undefined when the server says that there is none. Any other failure is thrown on. */
export async function orUndefined<T>(code: number, answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isAbsence(code, error)) return undefined;
    throw error;
  }
}
