// Takes tasks from its queue, does them, reports. At start it reports the state of every sandbox that it has, so
// that what ended while nobody looked is known. The scheduler decides; this only does and tells.
import type { ProviderTask, Report } from "#schemas/provider/task.ts";
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { newId } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService, Start } from "#shared/service/service.ts";
import type { WorkQueueReceiver, WorkQueueSender } from "#shared/work-queue/work-queue.ts";
import type { SandboxProvider, SandboxRef, SeenSandbox } from "./provider.ts";

export type ProviderDependencies = Readonly<{
  provider: SandboxProvider;
  tasks: WorkQueueReceiver<ProviderTask>;
  reports: WorkQueueSender<Report>;
}>;

type Running = ProviderDependencies & { log: Log };

/** Runs one provider until it is closed. Closing ends its sandboxes where they cannot outlive the process. */
export const startProvider: Start<ProviderDependencies> = async (dependencies): Promise<RunningService> => {
  const { provider, tasks, reports, log } = dependencies;
  const resources = new Resources();
  resources.add("provider", provider, (opened) => opened.close());
  const pending = new Set<Promise<void>>();
  resources.add("reports in hand", pending, (open) => Promise.all(open));
  const unwatch = provider.watch((ended) => {
    const sending = sendState(reports, ended)
      .catch((error: unknown) => log.error({ failure: failureOf(error), ended }, "An end could not be reported"))
      .finally(() => pending.delete(sending));
    pending.add(sending);
  });
  resources.add("watch", unwatch, (stop) => stop());
  try {
    for (const seen of await provider.list()) await sendState(reports, seen);
    resources.add("tasks", await tasks.receive((task) => handle(dependencies, task)), (receiver) => receiver.close());
  } catch (error) {
    await resources.close();
    throw error;
  }
  return { name: `provider-${provider.name}`, close: () => resources.close() };
};

/** A failure is an answer too. Only a report that could not be sent brings the task again. */
async function handle({ provider, reports, log }: Running, task: ProviderTask): Promise<void> {
  const startedAt = performance.now();
  const { op, sandboxId, taskId } = task;
  step("provider.task.starting");
  const report = await perform(provider, task).catch((error: unknown): Report => {
    const failure = boundedFailure(error);
    log.warn({ op, sandboxId, taskId, failure }, "A task failed");
    return { kind: "failed", ...refOf(task), taskId, failure };
  });
  step("provider.task.done");
  await reports.send(`${taskId}-${report.kind}`, report);
  step("provider.task.reported");
  log.info({ op, sandboxId, taskId, report: report.kind, ms: Math.round(performance.now() - startedAt) }, "Task done");
}

async function perform(provider: SandboxProvider, task: ProviderTask): Promise<Report> {
  const ref = refOf(task);
  const { taskId } = task;
  const startedAt = performance.now();
  const durationMs = () => Math.round(performance.now() - startedAt);
  switch (task.op) {
    case "create":
      await provider.create(startOf(task));
      return { kind: "created", ...ref, taskId, durationMs: durationMs() };
    case "restart":
      await provider.restart(startOf(task));
      return { kind: "restarted", ...ref, taskId, durationMs: durationMs() };
    case "pause":
      await provider.pause(ref);
      return { kind: "paused", ...ref, taskId };
    case "resume":
      await provider.resume(ref);
      return { kind: "resumed", ...ref, taskId };
    case "stop":
      await provider.stop(ref);
      return { kind: "stopped", ...ref, taskId };
    case "inspect":
      return stateReport(await provider.inspect(ref));
    case "destroy":
      await provider.destroy(ref);
      return { kind: "destroyed", ...ref, taskId };
  }
}

/** A sandbox with a token that has run out could never join: the scheduler asks again with a new one. */
function startOf(task: Extract<ProviderTask, { op: "create" | "restart" }>) {
  if (Date.parse(task.join.expiresAt) <= Date.now()) {
    throw new Refusal("join_token_expired", `The task's join token ran out at ${task.join.expiresAt}`, {
      next: "Send the message again: the sandbox is then asked for with a new token.",
    });
  }
  return { ...refOf(task), taskId: task.taskId, spec: task.spec, joinToken: task.join.token };
}

function refOf({ sandboxId, session, generation }: SandboxRef): SandboxRef {
  return { sandboxId, session, generation };
}

function stateReport({ state, reason, ...ref }: SeenSandbox): Report {
  return { kind: "state", ...refOf(ref), state, reason: reason.slice(0, 500) };
}

function sendState(reports: WorkQueueSender<Report>, seen: SeenSandbox): Promise<void> {
  step("provider.state.reporting");
  return reports.send(newId("event"), stateReport(seen));
}

function boundedFailure(error: unknown) {
  const { code, message, next } = failureOf(error);
  const bounded = { code: code.slice(0, 100), message: message.slice(0, 4_000) };
  return next === undefined ? bounded : { ...bounded, next: next.slice(0, 2_000) };
}
