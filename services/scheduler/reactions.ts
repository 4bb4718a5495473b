// What the scheduler does about each message of the ledger, its own ones included: a request is appended first and
// carried out when it comes back here, so a crash between the two only means that it comes back again.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { ProviderTask, SandboxSpec } from "#schemas/provider/task.ts";
import type { ProbeTask } from "#schemas/scheduler/probe.ts";
import type { Timer } from "#schemas/scheduler/timer.ts";
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import type { Log } from "#shared/service/log.ts";
import type { WorkQueueSender } from "#shared/work-queue/work-queue.ts";
import type { WarmPool } from "./pool/pool.ts";
import { newJoinToken, type Relay, revokePasses } from "./relay/join-tokens.ts";
import { sandboxToProbe } from "./sandbox/decide-probe.ts";
import { sessionOf } from "./sandbox/sandbox.ts";
import type { Sessions } from "./sessions.ts";

export type Reacting = Readonly<{
  sessions: Sessions;
  tasks: (provider: string) => WorkQueueSender<ProviderTask>;
  probes: WorkQueueSender<ProbeTask>;
  timers: WorkQueueSender<Timer>;
  relay: Relay;
  pool: Omit<WarmPool, "close">;
  /** Its network is that of new sandboxes; one that exists keeps its own. */
  spec: SandboxSpec;
  startMs: number;
  log: Log;
}>;

/** How long a provider has for a deletion until it is asked again. */
export const DELETE_MS = 60_000;

const REQUESTS = {
  SandboxCreateRequested: "create",
  SandboxRestartRequested: "restart",
  SandboxInspectRequested: "inspect",
  SandboxDeleteRequested: "destroy",
} as const;
type RequestEvent = EventOf<keyof typeof REQUESTS>;

export async function react(reacting: Reacting, messages: readonly LedgerMessage[]): Promise<void> {
  for (const message of messages) {
    reacting.sessions.follow(message);
    for (const event of message.events) {
      await reactTo(reacting, message, event);
      reacting.pool.hear(message, event);
    }
  }
}

async function reactTo(reacting: Reacting, message: LedgerMessage, event: PistisEvent): Promise<void> {
  const { sessions, relay, pool } = reacting;
  const { session } = message;
  const cause = { correlationId: message.correlationId, causationId: message.id };
  switch (event.type) {
    case "SandboxNeeded":
      if (!(await pool.handOver(message))) await answerNeed(reacting, message);
      if (event.data.reason === "unprobed") await askForProbe(reacting, message);
      return;
    case "PoolMemberAdded":
      return answerNeed(reacting, message);
    case "PoolMemberClaimed":
      return pool.settleClaim(message);
    case "SandboxJoined":
      return askForProbe(reacting, message);
    case "PoolMemberRetired":
    case "SessionEnded":
      step("scheduler.deletion.asking");
      await sessions.command({ type: "DeleteSandbox", session, taskId: newId("task") }, cause);
      step("scheduler.deletion.asked");
      return;
    case "SandboxCreateRequested":
    case "SandboxRestartRequested":
    case "SandboxInspectRequested":
    case "SandboxDeleteRequested":
      sessions.noteCause(session, cause);
      return carryOut(reacting, message, event);
    case "SandboxDestroyed":
      return revokePasses(relay, event.data.sandboxId);
  }
}

async function answerNeed({ sessions, spec, log }: Reacting, message: LedgerMessage): Promise<void> {
  const { session, correlationId, id } = message;
  const { network } = (await sessions.at(message)).pool?.spec ?? spec;
  try {
    step("scheduler.need.answering");
    const command = { type: "AnswerNeed", session, taskId: newId("task"), network } as const;
    await sessions.command(command, { correlationId, causationId: id });
    step("scheduler.need.answered");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    log.info({ session, failure: failureOf(error) }, "A sandbox is not made");
  }
}

/** Nobody waits for the answer here; a turn that waits and hears none asks again by SandboxNeeded. */
async function askForProbe({ sessions, probes }: Reacting, message: LedgerMessage): Promise<void> {
  const { session, id } = message;
  const sandbox = sandboxToProbe(await sessions.at(message));
  if (sandbox === undefined) return;
  step("scheduler.probe.sending");
  await probes.send(`${id}-probe`, { session, generation: sandbox.generation });
  step("scheduler.probe.sent");
}

/**
 * A request that is not the open one any more needs nothing. Its deadline is set whatever becomes of the rest, and the
 * task goes out only when both the deadline and the join token stand. An inspection has no deadline (decide.ts).
 */
async function carryOut(reacting: Reacting, message: LedgerMessage, event: RequestEvent): Promise<void> {
  const { sessions, tasks } = reacting;
  const { session } = message;
  const { taskId, provider } = event.data;
  const { sandbox, network, pool } = await sessions.at(message);
  if (!("taskId" in sandbox) || sandbox.taskId !== taskId) return;
  const [task] = await Promise.all([
    taskFor(reacting, { ...(pool?.spec ?? reacting.spec), network }, event),
    setDeadline(reacting, session, event),
  ]);
  step("scheduler.task.sending");
  await tasks(provider).send(taskId, task);
  step("scheduler.task.sent");
}

async function setDeadline({ timers, startMs }: Reacting, session: string, event: RequestEvent): Promise<void> {
  if (event.type === "SandboxInspectRequested") return;
  const waitMs = event.type === "SandboxDeleteRequested" ? DELETE_MS : startMs;
  const { taskId } = event.data;
  step("scheduler.deadline.setting");
  await timers.send(taskId, { session, taskId, dueAt: new Date(Date.now() + waitMs).toISOString() });
  step("scheduler.deadline.set");
}

async function taskFor({ relay, startMs }: Reacting, spec: SandboxSpec, event: RequestEvent): Promise<ProviderTask> {
  const { taskId, sandboxId, generation } = event.data;
  const about = { taskId, session: sessionOf(sandboxId), sandboxId, generation };
  const op = REQUESTS[event.type];
  if (op === "inspect" || op === "destroy") return { op, ...about };
  return { op, ...about, spec, join: await newJoinToken(relay, about, { now: Date.now(), requestMs: startMs }) };
}
