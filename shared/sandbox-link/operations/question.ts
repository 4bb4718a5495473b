import type { z } from "zod";
import type { RequestOf, WireRequest } from "#schemas/wire/message.ts";
import { SandboxLost } from "../link.ts";
import type { Requests } from "../requests.ts";
import { refusalOf, replaced } from "./outcome.ts";

type PlainOp = "hello" | "stop" | "processes" | "signal" | "fileList" | "fileSearch" | "probe";

/** A request with nothing but an answer. `repeats`: asking again after a reconnect does no harm. */
export function ask<O extends PlainOp, A>(
  requests: Requests,
  request: RequestOf<O> & WireRequest,
  answer: z.ZodType<A>,
  { repeats, takesMs }: { repeats: boolean; takesMs: number },
): Promise<A> {
  const done = Promise.withResolvers<A>();
  requests.start({
    takesMs,
    request: (_stream, before, now) => {
      if (before === undefined || repeats) return replaced(before, now) ?? request;
      return new SandboxLost("unreachable", `The connection ended before ${request.op} was answered`);
    },
    answered: (given) => done.resolve(answer.parse(given)),
    failed: (failure) => done.reject(refusalOf(failure)),
    lost: (error) => done.reject(error),
  });
  return done.promise;
}
