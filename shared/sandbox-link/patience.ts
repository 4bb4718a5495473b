// How long one request is waited for. Its time in all is fixed when it is first sent: a sandbox that answers nothing and is
// cut off again and again, or that moves a byte now and then, would else hold whoever asked without an end. Time in which
// this side is the slow one does not count.
import type { LinkLimits } from "./limits.ts";
import { SandboxLost } from "./link.ts";
import type { Operation } from "./requests.ts";

const TIMER_MS_MAX = 2 ** 31 - 1;

export type Times = Pick<LinkLimits, "answerMs" | "bytesPerSecondMin" | "outputRestMs"> &
  Readonly<{ reattachMs: number }>;

export class Patience {
  readonly #operation: Operation;
  readonly #times: Times;
  readonly #onEnd: (error: SandboxLost) => void;
  /** On the steady clock; not there before the request was sent. */
  #endsAtMs: number | undefined;
  #isAnswered = false;
  #wasAnswered = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(operation: Operation, times: Times, onEnd: (error: SandboxLost) => void) {
    this.#operation = operation;
    this.#times = times;
    this.#onEnd = onEnd;
  }

  /** The sandbox is not there. */
  away(): void {
    this.#wait(this.#times.reattachMs, (waitedMs) => this.#end(`The sandbox was not reachable for ${waitedMs} ms`));
  }

  /** The request was sent, maybe again. */
  sent(): void {
    const { answerMs, reattachMs } = this.#times;
    const { takesMs = 0 } = this.#operation;
    this.#endsAtMs ??= performance.now() + takesMs + this.#transferMs() + answerMs + reattachMs;
    this.#isAnswered = false;
    this.#watch(answerMs + takesMs);
  }

  /** The answer is there, its stream goes on. That of a command has a time of its own, once. */
  answered(): void {
    const isOutput = this.#operation.takesMs !== undefined;
    if (isOutput && !this.#wasAnswered) this.#endsAtMs = performance.now() + this.#times.outputRestMs;
    this.#isAnswered = true;
    this.#wasAnswered = true;
    this.#watch(this.#times.answerMs);
  }

  /** Something of its stream came. What is near its end is only waited for, so that this end comes. */
  heard(): void {
    if (!this.#isAnswered && this.#operation.takesMs !== undefined) return;
    if (this.#leftMs() > this.#times.answerMs) this.#timer?.refresh();
  }

  over(): void {
    clearTimeout(this.#timer);
  }

  /** A sandbox that is there but does not answer is given up too, unless it is this side that is slow. */
  #watch(waitMs: number): void {
    this.#wait(waitMs, (waitedMs) => {
      if (!this.#isOurTurn()) return this.#end(`The sandbox gave no answer within ${waitedMs} ms`);
      const { answerMs } = this.#times;
      const now = performance.now();
      this.#endsAtMs = Math.max(now + answerMs, waitedMs + (this.#endsAtMs ?? now));
      this.#watch(answerMs);
    });
  }

  #wait(waitMs: number, onEnd: (waitedMs: number) => void): void {
    clearTimeout(this.#timer);
    const ms = Math.max(0, Math.min(waitMs, this.#leftMs()));
    if (ms === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => onEnd(Math.round(ms)), Math.min(ms, TIMER_MS_MAX));
  }

  #end(message: string): void {
    this.#onEnd(new SandboxLost("unreachable", message));
  }

  #leftMs(): number {
    return (this.#endsAtMs ?? Number.POSITIVE_INFINITY) - performance.now();
  }

  #transferMs(): number {
    const { incoming, outgoing } = this.#operation;
    return (1_000 * ((incoming?.bytesMax ?? 0) + (outgoing?.size ?? 0))) / this.#times.bytesPerSecondMin;
  }

  /** Before the answer a slow reader is no excuse: pistisd does not wait for it. */
  #isOurTurn(): boolean {
    const { incoming, outgoing } = this.#operation;
    return (this.#isAnswered && incoming?.allowance === 0) || outgoing?.isSending === true;
  }
}
