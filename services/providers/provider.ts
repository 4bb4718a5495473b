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

/** What a provider cannot do is declared, not faked. */
export type Capabilities = Readonly<{
  /** It can freeze a sandbox and thaw it again with its memory. */
  pause: boolean;
  /** A stopped sandbox keeps its disk. */
  keepsDisk: boolean;
}>;

export interface SandboxProvider {
  readonly name: string;
  readonly capabilities: Capabilities;

  /**
   * Makes and starts the sandbox. One that exists is started with the disk that it has.
   * Throws Refusal `generation_old` when a newer one exists; Retryable and Fatal with a code and the next step.
   */
  create(request: StartSandbox): Promise<void>;

  /** Starts a sandbox again with its disk, ending what still runs of it. Throws Refusal `sandbox_missing` when it is gone. */
  restart(request: StartSandbox): Promise<void>;

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
