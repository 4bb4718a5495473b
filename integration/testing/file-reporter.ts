// Reporter for long runs: a line per file when it is over, with how many tests it has and how long it took with its hooks,
// a failure at once, and the usual summary at the end.
import Mocha from "mocha";

const { EVENT_RUN_END, EVENT_SUITE_BEGIN, EVENT_TEST_FAIL, EVENT_TEST_PASS, EVENT_TEST_PENDING } =
  Mocha.Runner.constants;

type File = { name: string; startedAt: number; passed: number; failed: number; pending: number };

/** `MOCHA_LANE`, when set, is put before each line. */
export default class FileReporter extends Mocha.reporters.Base {
  readonly #lane = process.env["MOCHA_LANE"] === undefined ? "" : `[${process.env["MOCHA_LANE"]}] `;
  #file: File | undefined;

  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    runner.on(EVENT_SUITE_BEGIN, ({ parent, file }: Mocha.Suite) => parent?.root && this.#enter(file ?? ""));
    runner.on(EVENT_TEST_PASS, () => this.#file && this.#file.passed++);
    runner.on(EVENT_TEST_PENDING, () => this.#file && this.#file.pending++);
    runner.on(EVENT_TEST_FAIL, (test: Mocha.Runnable, error: Error) => {
      if (this.#file !== undefined) this.#file.failed++;
      this.#say(`FAILED ${test.fullTitle()}: ${error.message}`);
    });
    runner.on(EVENT_RUN_END, () => {
      this.#leave();
      this.epilogue();
    });
  }

  #enter(path: string): void {
    const name = path.replace(`${process.cwd()}/`, "");
    if (this.#file?.name === name) return;
    this.#leave();
    this.#file = { name, startedAt: performance.now(), passed: 0, failed: 0, pending: 0 };
  }

  #leave(): void {
    if (this.#file === undefined) return;
    const { name, startedAt, passed, failed, pending } = this.#file;
    const counts = [
      `${passed} passed`,
      ...(failed > 0 ? [`${failed} FAILED`] : []),
      ...(pending > 0 ? [`${pending} skipped`] : []),
    ];
    this.#say(`${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${name}  ${counts.join(", ")}`);
    this.#file = undefined;
  }

  #say(line: string): void {
    process.stdout.write(`${this.#lane}${line}\n`);
  }
}
