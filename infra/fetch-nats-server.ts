// Makes sure that there is a nats-server, so that the first start need not download one. Says only what it does.
import { findNatsServer } from "#shared/embedded/find-nats-server.ts";
import { failureOf } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";

const say = (_fields: object, text: string) => console.log(`setup: ${text}`);
const quiet = () => undefined;
const log: Log = {
  debug: quiet,
  info: (fields, text) => (text.startsWith("Using") ? quiet() : say(fields, text)),
  warn: say,
  error: say,
};

try {
  await findNatsServer({ log });
} catch (error) {
  const { message, next } = failureOf(error);
  console.error(`setup: ${message}\n  next: ${next ?? "run it again"}`);
  process.exitCode = 1;
}
