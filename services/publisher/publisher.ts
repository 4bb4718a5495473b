// Copies a session's repository into its sandbox. Holds the code host's credentials; the sandbox never sees one.
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { handleCommand, load } from "#shared/ledger/handle-command.ts";
import type { Ledger, LedgerFeed, LedgerMessage } from "#shared/ledger/ledger.ts";
import type { LivePublisher } from "#shared/live/live.ts";
import { type OpenLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import type { Log } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService, Start } from "#shared/service/service.ts";
import { copyRepository } from "./copy/copy-repository.ts";
import { type Locks, openLocks } from "./copy/locks.ts";
import { openProgress } from "./copy/progress.ts";
import { openCopyQueue } from "./copy-queue.ts";
import { openGit } from "./git/mirror.ts";
import type { Git } from "./git/run-git.ts";
import { decide, isSameBoot, type RepositoryCommand } from "./repository/decide.ts";
import { RepositoryFolds } from "./repository/folds.ts";
import { evolve, initialState, type SessionRepository, type UpSandbox } from "./repository/repository.ts";

export type PublisherDependencies = Readonly<{
  /** Opened for the writer `publisher`. */
  ledger: Ledger;
  feed: LedgerFeed;
  openLink: OpenLink;
  live: LivePublisher;
  config: PistisConfig["git"];
  /** Holds the mirrors; only this process uses it. */
  stateDir: string;
}>;

type Publishing = PublisherDependencies & { git: Git; locks: Locks; folds: RepositoryFolds; log: Log };

const COPIES_AT_ONCE_MAX = 4;
const decider = { initialState, evolve, decide };

export const startPublisher: Start<PublisherDependencies> = async (dependencies): Promise<RunningService> => {
  const { feed, stateDir, log } = dependencies;
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  // Bundles of copies that were cut off.
  await rm(join(stateDir, "bundles"), { recursive: true, force: true });
  await mkdir(join(stateDir, "bundles"), { mode: 0o700 });
  const publishing: Publishing = {
    ...dependencies,
    git: await openGit(stateDir),
    locks: openLocks(),
    folds: new RepositoryFolds(),
  };
  const resources = new Resources();
  const queue = await openCopyQueue({
    folder: join(stateDir, "wanted"),
    copiesMax: COPIES_AT_ONCE_MAX,
    work: (session, signal) => copySession(publishing, session, signal),
    log,
  });
  resources.add("copies", queue, ({ close }) => close());
  const handle = async (messages: readonly LedgerMessage[]) => {
    for (const session of wantedBy(publishing.folds, messages)) await queue.add(session);
  };
  try {
    resources.add("ledger feed", await feed.react({ consumer: "publisher", handle }), ({ close }) => close());
  } catch (error) {
    await resources.close();
    throw error;
  }
  return { name: "publisher", close: () => resources.close() };
};

/** Sessions with something to copy, or about which too little is known to rule it out. */
function wantedBy(folds: RepositoryFolds, messages: readonly LedgerMessage[]): Set<string> {
  const isCause = ({ events }: LedgerMessage) =>
    events.some(({ type }) => type === "SandboxJoined" || type === "EgressProbed" || type === "TurnStarted");
  const wanting = messages.filter((message) => {
    const status = folds.at(message)?.status ?? "wanted";
    return status === "wanted" && isCause(message);
  });
  return new Set(wanting.map(({ session }) => session));
}

/** Copies until the ledger says that there is nothing to copy: the sandbox may be another one after each try. */
async function copySession(publishing: Publishing, session: string, signal: AbortSignal): Promise<void> {
  let tried: UpSandbox | undefined;
  for (;;) {
    const folded = await load(publishing.ledger, decider, session, publishing.folds.get(session));
    const { state } = folded;
    publishing.folds.set(session, folded);
    if (state.status !== "wanted") return;
    if (tried !== undefined && isSameBoot(tried, state.sandbox)) return;
    tried = state.sandbox;
    step("publisher.copy.starting");
    const command = await attempt(publishing, session, state, signal);
    signal.throwIfAborted();
    step("publisher.copy.done");
    const cause = { correlationId: session, causationId: null };
    await handleCommand(publishing.ledger, decider, { session, command, cause, known: folded });
    step("publisher.copy.stored");
  }
}

async function attempt(
  publishing: Publishing,
  session: string,
  { source: repository, sandbox }: Extract<SessionRepository, { status: "wanted" }>,
  signal: AbortSignal,
): Promise<RepositoryCommand> {
  const { openLink, live, log, git, locks, config } = publishing;
  const link = openLink({ sandboxId: sandbox.sandboxId, role: "service" });
  // What waits for the sandbox ends when the publisher stops.
  const hangUp = () => {
    link.close().catch((error: unknown) => log.warn({ session, failure: failureOf(error) }, "A link did not close"));
  };
  signal.addEventListener("abort", hangUp, { once: true });
  try {
    const progress = openProgress(live, session);
    const copy = await copyRepository({ git, config, locks, repository, link, progress, signal });
    log.info({ session, ...sandbox, ...copy }, "The repository is in the sandbox");
    return { type: "RecordCopy", sandbox, copy };
  } catch (error) {
    const failure = boundedFailure(error);
    if (!signal.aborted) log.warn({ session, ...sandbox, failure }, "The repository could not be copied");
    return { type: "RecordFailure", sandbox, failure };
  } finally {
    signal.removeEventListener("abort", hangUp);
    await link.close();
  }
}

function boundedFailure(error: unknown) {
  const next = "The copy is tried again when the sandbox is back.";
  const { code, message, ...rest } =
    error instanceof SandboxLost ? { code: "sandbox_lost", message: error.message, next } : failureOf(error);
  const bounded = { code: code.slice(0, 100), message: message.slice(0, 4_000) };
  return rest.next === undefined ? bounded : { ...bounded, next: rest.next.slice(0, 2_000) };
}
