// Every run of the tests ends by itself: what is still open half a minute after the last test is a leak, which fails
// the run instead of hanging it.

const EXIT_MS = 30_000;

export function mochaGlobalTeardown(): void {
  // Unreferenced, so it fires only when something else keeps the process alive.
  setTimeout(failAsLeak, EXIT_MS).unref();
}

function failAsLeak(): void {
  console.error(`\nThe tests are over and this is still open: ${process.getActiveResourcesInfo().join(", ")}`);
  // Mocha sets the exit code at exit from the failures that it counted; this one comes after.
  process.on("exit", () => {
    process.exitCode = 1;
  });
  process.exit();
}
