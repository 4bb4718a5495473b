// A rejection that nobody handles ends a service. Mocha hears of it and goes on; here it fails the test that runs.

/** Mocha tells of each once more. */
const told = new WeakSet<Promise<unknown>>();

process.on("unhandledRejection", (reason, promise) => {
  if (told.has(promise)) return;
  told.add(promise);
  throw reason instanceof Error ? reason : new Error(`Nobody handled this rejection: ${String(reason)}`);
});
