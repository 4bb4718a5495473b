// What runs sandboxes. provider.contract.ts says it in tests; a new provider is a new folder and one row in
// registry.ts. Every call may come twice and may have half happened before: asking for what holds changes nothing.
import type { SandboxSpec, SandboxState } from "#schemas/provider/task.ts";

/** One life of a session's sandbox. A higher generation is another sandbox: what belongs to it is never touched for an older one. */
export type SandboxRef = Readonly<{ sandboxId: string; session: string; generation: number }>;

export type StartSandbox = SandboxRef &
  Readonly<{
    /** Names the request: a start that this very task did already is not done again. */
    taskId: string;
    spec: SandboxSpec;
    /** Works once; the provider hands it to pistisd so that it is in no process's environment. */
    joinToken: string;
  }>;

export type SeenSandbox = SandboxRef & Readonly<{ state: SandboxState; reason: string }>;

/** What a provider can do beyond making and deleting. What it cannot do is not in its set, and is refused, not faked. */
export type Capability =
  /** It can freeze a sandbox and thaw it again with its memory. */
  | "pause"
  /** It can end a sandbox and start it again with its disk. */
  | "stop";

export interface SandboxProvider {
  readonly name: string;
  readonly capabilities: ReadonlySet<Capability>;

  /**
   * Makes and starts the sandbox. One that exists is started with the disk that it has.
   * Throws Refusal `generation_old` when a newer one exists; Retryable and Fatal with a code and the next step.
   */
  create(request: StartSandbox): Promise<void>;

  /**
   * Starts a sandbox again with its disk, ending what still runs of it: the way back from `stop` and from a crash.
   * Throws Refusal `sandbox_missing` when it is gone.
   */
  restart(request: StartSandbox): Promise<void>;

  /**
   * Freezes it with all that it has in memory. Needs the capability `pause`: else Refusal `pause_unsupported`.
   * Throws Refusal `sandbox_missing` when it is gone and `sandbox_not_running` when it is stopped.
   */
  pause(ref: SandboxRef): Promise<void>;

  /** Thaws it; one that runs is a success. Throws as `pause` does. */
  resume(ref: SandboxRef): Promise<void>;

  /**
   * Ends all that runs in it and keeps its disk; one that is stopped is a success. Needs the capability `stop`: else
   * Refusal `stop_unsupported`. Throws Refusal `sandbox_missing` when it is gone.
   */
  stop(ref: SandboxRef): Promise<void>;

  /** The true state, from the provider's own resources: never guessed from what was asked before. */
  inspect(ref: SandboxRef): Promise<SeenSandbox>;

  /** Ends and deletes everything of the sandbox. One that is gone is a success. */
  destroy(ref: SandboxRef): Promise<void>;

  /** Every sandbox of this install, none of another. */
  list(): Promise<SeenSandbox[]>;

  /** Called when a sandbox ends by itself. Returns how to stop watching. */
  watch(onEnd: (ended: SeenSandbox) => void): () => void;

  /** What it isolates and what it does not, in words, for people. */
  isolation(): Isolation;

  /** Ends what must not outlive this process. Disks stay. */
  close(): Promise<void>;
}

export type Isolation = Readonly<{ holds: readonly string[]; doesNotHold: readonly string[] }>;
