// The sandbox of a turn and the link to it. A turn asks for it when it starts and waits for it only before the
// first tool call, so that the model thinks while the sandbox starts.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { unlessAborted } from "#shared/errors/unless-aborted.ts";
import { step } from "#shared/faults/step.ts";
import { type OpenLink, type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import { type Workplace as Place, workplaceOf } from "../session/questions.ts";
import { type SessionRecord, until } from "../session/record.ts";
import { working } from "./context.ts";
import type { SandboxBoot, WarmLink } from "./warm-links.ts";

export type Bench = Readonly<{ link: SandboxLink; sandboxId: string }>;
type Ready = Extract<Place, { status: "ready" }>;
type Opened = {
  readonly place: SandboxBoot;
  readonly link: SandboxLink;
  answered: boolean;
  /** It still works under an earlier turn's epoch. */
  isWarm: boolean;
};

type Awaited = Extract<Place, { status: "waiting" }>["what"];

const WAITS: Readonly<Record<Awaited, string>> = {
  sandbox: "The sandbox starts",
  network: "The network lock-down is checked",
  repository: "The repository is copied into the sandbox",
};

const LEFTOVER_GRACE_MS = 1_000;
/** A warm link that is not connected within this time is not worth waiting for. */
const WARM_READY_MS = 1_000;

type Dependencies = Readonly<{
  record: SessionRecord;
  epoch: number;
  openLink: OpenLink;
  config: PistisConfig;
  /** A link of the session's last turn. */
  warm: WarmLink | undefined;
  /** Aborts when the turn does not need the sandbox any more. */
  signal: AbortSignal;
  onWait: (what: Awaited, text: string) => void;
  /** The sandbox did not take the turn's epoch; its answer to the next request says what that means. */
  onNotRaised: (error: unknown) => void;
  /** A call of an earlier turn could not be told to stop. */
  onLeftover: (callId: string, error: unknown) => void;
}>;

export class Workplace {
  readonly #dependencies: Dependencies;
  #open: Opened | undefined;
  readonly #outdated: Promise<void>[] = [];
  #preparing: Promise<Bench> | undefined;

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
    const { warm } = dependencies;
    if (warm !== undefined) this.#open = { place: warm.boot, link: warm.link, answered: false, isWarm: true };
  }

  /** The sandbox if commands can leave this instant. */
  get now(): Bench | undefined {
    const open = this.#open;
    const place = this.#place();
    if (open === undefined || !open.answered || place.status !== "ready" || !isSame(open.place, place))
      return undefined;
    return { link: open.link, sandboxId: place.sandboxId };
  }

  /** A call was lost: the sandbox has to answer again before the next one leaves. */
  doubt(): void {
    if (this.#open !== undefined) this.#open.answered = false;
  }

  /**
   * Waits until commands can run. Throws a Refusal with the code and next step of whatever prevents it, or the
   * signal's reason. Several callers share one wait.
   */
  prepare(): Promise<Bench> {
    this.#preparing ??= this.#prepare().finally(() => {
      this.#preparing = undefined;
    });
    return this.#preparing;
  }

  /** The link to the sandbox that is up, to ask about calls; a repository that is still being copied is no hindrance. */
  linkToRecover(): SandboxLink | undefined {
    const { sandbox } = working(this.#dependencies.record.state);
    if (sandbox.status !== "up") return undefined;
    const { sandboxId, bootId, generation } = sandbox;
    // A turn between that link's and this one belonged to another brain: it starts from nothing.
    if (this.#open?.isWarm) this.#letGo(this.#open);
    return this.#linkTo({ sandboxId, bootId, generation }).link;
  }

  /** Answers with the link if it can serve the next turn and is to be kept; otherwise it is closed. */
  async close(keeps: boolean): Promise<WarmLink | undefined> {
    const open = this.#open;
    this.#open = undefined;
    const warm = keeps && open?.answered ? { boot: open.place, link: open.link } : undefined;
    await Promise.all([warm === undefined ? open?.link.close() : undefined, ...this.#outdated]);
    return warm;
  }

  async #prepare(): Promise<Bench> {
    for (;;) {
      const place = await this.#usable();
      const open = this.#linkTo(place);
      if (open.isWarm && !(await this.#raised(open))) continue;
      const boot = await this.#answers(open.link, this.#dependencies.config.recovery.reattachMs);
      open.answered = boot === place.bootId;
      if (open.answered) {
        this.#stopLeftovers(open.link);
        return { link: open.link, sandboxId: place.sandboxId };
      }
      if (boot === undefined) await this.#helped(open.link, place);
      else await this.#announced(place);
    }
  }

  #place(): Place {
    return workplaceOf(working(this.#dependencies.record.state));
  }

  /** Waits for what the ledger has to say first: the sandbox joined, the repository is in it. */
  async #usable(): Promise<Ready> {
    const { record, epoch, config, onWait, signal } = this.#dependencies;
    for (let askedAt = -1; ; ) {
      signal.throwIfAborted();
      const place = this.#place();
      if (place.status === "ready") return place;
      if (place.status === "failed") throw refusalOf(place.failure);
      if (place.status === "needed") {
        // Once Stop is stored, asking decides nothing: without news in between, asking again would go on for ever.
        if (record.sequence === askedAt) throw askedInVain();
        askedAt = record.sequence;
        step("brain.sandbox.asking");
        await record.commit({ type: "AskForSandbox", epoch, reason: place.reason });
        step("brain.sandbox.asked");
        continue;
      }
      onWait(place.what, WAITS[place.what]);
      const repositoryMs = config.git.cloneMs + config.sandboxes.startMs;
      await this.#changed(place, place.what === "repository" ? repositoryMs : config.sandboxes.startMs);
    }
  }

  async #changed(from: Extract<Place, { status: "waiting" }>, withinMs: number): Promise<void> {
    const { record, signal } = this.#dependencies;
    const timeout = AbortSignal.timeout(withinMs);
    const isOther = (place: Place) => place.status !== "waiting" || place.what !== from.what;
    try {
      const look = () => (isOther(this.#place()) ? true : undefined);
      await until(record, look, AbortSignal.any([signal, timeout]));
    } catch (error) {
      if (signal.aborted || !timeout.aborted) throw error;
      throw tooLate(from.what, withinMs);
    }
  }

  #linkTo({ sandboxId, generation, bootId }: SandboxBoot): Opened {
    const place = { sandboxId, generation, bootId };
    if (this.#open !== undefined && isSame(this.#open.place, place)) return this.#open;
    if (this.#open !== undefined) this.#letGo(this.#open);
    const { epoch, openLink } = this.#dependencies;
    const link = openLink({ sandboxId, role: "brain", epoch, bootId });
    this.#open = { place, link, answered: false, isWarm: false };
    return this.#open;
  }

  /**
   * Takes a warm link over for this turn; false when it is no use any more, whatever became of it meanwhile. The
   * answer to the epoch is not waited for: pistisd serves a connection in order, so whatever follows is judged under
   * the new one, and a connection that is made anew says that one at once.
   */
  async #raised(open: Opened): Promise<boolean> {
    const { epoch, signal, onNotRaised } = this.#dependencies;
    open.isWarm = false;
    open.link.raiseEpoch(epoch).catch((error: unknown) => {
      open.answered = false;
      onNotRaised(error);
    });
    step("brain.epoch.sent");
    try {
      await unlessAborted(open.link.ready(WARM_READY_MS), signal);
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      this.#letGo(open);
      return false;
    }
  }

  #letGo(open: Opened): void {
    this.#outdated.push(open.link.close());
    if (this.#open === open) this.#open = undefined;
  }

  /** The start of pistisd that is there; undefined when none is within that time. */
  async #answers(link: SandboxLink, withinMs: number): Promise<string | undefined> {
    try {
      return (await unlessAborted(link.ready(withinMs), this.#dependencies.signal)).bootId;
    } catch (error) {
      if (error instanceof SandboxLost) return undefined;
      throw error;
    }
  }

  /**
   * The sandbox was started again and the ledger does not say so yet. A call that left now would be taken for one
   * of the start before, and be told as lost while it runs.
   */
  async #announced(place: Ready): Promise<void> {
    const { record, config, signal } = this.#dependencies;
    const { startMs } = config.sandboxes;
    const timeout = AbortSignal.timeout(startMs);
    try {
      await until(record, () => (this.#isStill(place) ? undefined : true), AbortSignal.any([signal, timeout]));
    } catch (error) {
      if (signal.aborted || !timeout.aborted) throw error;
      throw tooLate("sandbox", startMs);
    }
  }

  /** What Stop could not reach is told again, ahead of every new command on the same link (C68). */
  #stopLeftovers(link: SandboxLink): void {
    for (const callId of working(this.#dependencies.record.state).unstopped) {
      link.stop(callId, LEFTOVER_GRACE_MS).catch((error: unknown) => this.#dependencies.onLeftover(callId, error));
    }
  }

  /** Asks for help with a sandbox that does not answer, and waits until it answers or another boot joined. */
  async #helped(link: SandboxLink, place: Ready): Promise<void> {
    const { record, epoch, config, signal, onWait } = this.#dependencies;
    step("brain.sandbox.doubting");
    await record.commit({ type: "AskForSandbox", epoch, reason: "unreachable" });
    onWait("sandbox", "The sandbox does not answer; its provider is asked about it");
    const over = new AbortController();
    const other = until(
      record,
      () => (this.#isStill(place) ? undefined : true),
      AbortSignal.any([signal, over.signal]),
    );
    try {
      const answer = await Promise.race([other, this.#answers(link, config.sandboxes.startMs)]);
      if (answer === undefined) throw tooLate("sandbox", config.sandboxes.startMs);
    } finally {
      over.abort();
      await other.catch(() => undefined);
    }
  }

  #isStill(place: Ready): boolean {
    const now = this.#place();
    return now.status === "ready" && isSame(now, place);
  }
}

function isSame(one: SandboxBoot, other: SandboxBoot): boolean {
  return one.sandboxId === other.sandboxId && one.generation === other.generation && one.bootId === other.bootId;
}

function refusalOf({ code, message, next }: { code: string; message: string; next?: string | undefined }): Refusal {
  return new Refusal(code, message, next === undefined ? {} : { next });
}

function askedInVain(): Fatal {
  return new Fatal("sandbox_not_asked", "The sandbox is needed and was not asked for", {
    next: "Post a message to try again.",
  });
}

function tooLate(what: Awaited, withinMs: number): Refusal {
  if (what === "network") {
    return new Refusal("network_probe_timeout", `The sandbox's network was not found closed within ${withinMs} ms`, {
      next: "See that the scheduler runs and reaches the sandbox through the relay, then post a message to try again.",
    });
  }
  if (what === "repository") {
    return new Refusal("repository_copy_timeout", `The repository was not copied in within ${withinMs} ms`, {
      next: "Post a message to try again; raise git.cloneMs in pistis.json for a very large repository.",
    });
  }
  return new Refusal("sandbox_start_timeout", `The sandbox did not join within ${withinMs} ms`, {
    next: "Run `pistis doctor`, look at `pistis events`, then post a message to try again.",
  });
}
