// A real process of a SandboxPeer: its own group, standard input closed, all output kept.
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { AnswerOf, ExecOutcome, ExecResult, RequestOf } from "#schemas/wire/message.ts";
import type { ExecOptions } from "#shared/sandbox-link/link.ts";

type Spawn = Pick<RequestOf<"exec">, "command" | "timeoutMs" | "excerpt"> & { cwd: string };

export class PeerProcess {
  readonly ended: Promise<ExecResult>;
  readonly #request: Spawn;
  readonly #child: ChildProcess;
  readonly #startedAt = new Date();
  readonly #chunks: Uint8Array[] = [];
  #outcome: ExecOutcome | undefined;
  #cause: "timed-out" | "stopped" | undefined;

  constructor(request: Spawn, onOutput: ExecOptions["onOutput"]) {
    this.#request = request;
    this.#child = spawn("sh", ["-c", `exec 2>&1\n${request.command}`], {
      cwd: request.cwd,
      detached: true,
      stdio: ["ignore", "pipe", "ignore"],
    });
    let position = 0;
    this.#child.stdout?.on("data", (bytes: Buffer) => {
      this.#chunks.push(bytes);
      void onOutput?.({ position, bytes });
      position += bytes.byteLength;
    });
    const timer = setTimeout(() => this.#kill("timed-out"), request.timeoutMs);
    this.ended = new Promise((resolve) => {
      this.#child.on("close", (code, signal) => {
        clearTimeout(timer);
        this.#outcome = this.#outcomeOf(code, signal);
        resolve(this.#result(this.#outcome));
      });
    });
  }

  get output(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }

  inBackground(): ExecResult {
    return this.#result({ status: "background" });
  }

  /** False when it has ended already. */
  stop(graceMs: number): boolean {
    if (this.#outcome !== undefined) return false;
    this.#kill("stopped", graceMs === 0 ? "SIGKILL" : "SIGTERM");
    return true;
  }

  signal(signal: NodeJS.Signals): boolean {
    if (this.#outcome !== undefined || this.#child.pid === undefined) return false;
    return process.kill(-this.#child.pid, constants.signals[signal]);
  }

  describe(callId: string): AnswerOf<"processes">["processes"][number] {
    const outcome = this.#outcome === undefined ? {} : { outcome: this.#outcome };
    const { command } = this.#request;
    const outputBytes = this.output.byteLength;
    const running = this.#outcome === undefined;
    return { callId, command, running, outputBytes, startedAt: this.#startedAt.toISOString(), ...outcome };
  }

  #kill(cause: "timed-out" | "stopped", signal: NodeJS.Signals = "SIGKILL"): void {
    this.#cause = cause;
    if (this.#child.pid !== undefined) process.kill(-this.#child.pid, signal);
  }

  #outcomeOf(code: number | null, signal: NodeJS.Signals | null): ExecOutcome {
    if (this.#cause === "timed-out") return { status: "timed-out", timeoutMs: this.#request.timeoutMs };
    if (this.#cause === "stopped") return { status: "stopped" };
    if (signal !== null) return { status: "signalled", signal, outOfMemory: false };
    return { status: "exited", exitCode: code ?? -1 };
  }

  #result(outcome: ExecOutcome): ExecResult {
    const { headBytes, tailBytes } = this.#request.excerpt;
    const output = Buffer.from(this.output);
    const head = output.subarray(0, headBytes);
    const tail = output.subarray(Math.max(headBytes, output.byteLength - tailBytes));
    return {
      outcome,
      outputBytes: output.byteLength,
      keptBytes: output.byteLength,
      head: head.toString("base64"),
      tail: tail.toString("base64"),
      durationMs: Date.now() - this.#startedAt.getTime(),
      leftRunning: false,
    };
  }
}
