import { expect } from "chai";
import type { ProviderTask, Report } from "#schemas/provider/task.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { silentLog } from "#shared/service/log.ts";
import { contractSpec } from "./provider.contract.ts";
import type { SandboxProvider, SeenSandbox } from "./provider.ts";
import { startProvider } from "./provider-service.ts";

describe("the provider service", () => {
  it("reports the state of every sandbox when it starts, before it takes a task", async () => {
    const known = seen("stopped");
    const service = await serve({ list: async () => [known] });
    expect(service.reports).to.deep.equal([{ kind: "state", ...known }]);
    await service.close();
  });

  it("does each task and reports it under an id that a second delivery repeats", async () => {
    const service = await serve({});
    const create = createTask();
    await service.deliver(create);
    await service.deliver(create);
    const { op: _op, spec: _spec, join: _join, ...about } = create;
    for (const report of service.reports) expect(report).to.deep.include({ kind: "created", ...about });
    expect(new Set(service.ids).size).to.equal(1);
    for (const [op, kind] of [
      ["pause", "paused"],
      ["resume", "resumed"],
      ["stop", "stopped"],
    ] as const) {
      await service.deliver({ ...about, op });
      expect(service.reports.at(-1)).to.deep.equal({ kind, ...about });
    }
    await service.deliver({ ...about, op: "destroy" });
    expect(service.reports.at(-1)).to.deep.equal({ kind: "destroyed", ...about });
    await service.deliver({ ...about, op: "inspect" });
    expect(service.reports.at(-1)).to.include({ kind: "state", state: "missing" });
    await service.close();
  });

  it("reports a failure with its code and the next step", async () => {
    const service = await serve({
      create: () => Promise.reject(new Refusal("no_room", "No room", { next: "Make room" })),
    });
    await service.deliver(createTask());
    const failure = { code: "no_room", message: "No room", next: "Make room" };
    expect(service.reports.at(-1)).to.deep.include({ kind: "failed", failure });
    await service.close();
  });

  it("does not start a sandbox whose join token has run out", async () => {
    const service = await serve({ create: () => Promise.reject(new Error("not asked for")) });
    const late = createTask();
    await service.deliver({ ...late, join: { ...late.join, expiresAt: "2020-01-01T00:00:00.000Z" } });
    expect(service.reports.at(-1)).to.have.nested.property("failure.code", "join_token_expired");
    await service.close();
  });

  it("has a task come again when its report could not be sent", async () => {
    const service = await serve({});
    service.fail(new Retryable("bus_down", "The bus is down", { retryAfterMs: 1 }));
    const outcome = await service.deliver(createTask()).catch((error: unknown) => error);
    expect(outcome).to.be.instanceOf(Retryable);
    await service.close();
  });

  it("reports a sandbox that ends by itself", async () => {
    const service = await serve({});
    const ended = { ...seen("stopped"), reason: "x".repeat(600) };
    service.end(ended);
    await service.close();
    expect(service.reports).to.deep.equal([{ kind: "state", ...ended, reason: "x".repeat(500) }]);
  });
});

function seen(state: SeenSandbox["state"]): SeenSandbox {
  return { sandboxId: newId("sandbox"), session: newId("session"), generation: 1, state, reason: "because" };
}

function createTask(): Extract<ProviderTask, { op: "create" }> {
  const { sandboxId, session, generation } = seen("missing");
  const join = { token: "t".repeat(30), expiresAt: "2100-01-01T00:00:00.000Z" };
  return { op: "create", taskId: newId("task"), sandboxId, session, generation, spec: contractSpec, join };
}

/** A provider that does nothing but what the test gives it, and queues in memory. */
async function serve(changes: Partial<SandboxProvider>) {
  const reports: Report[] = [];
  const ids: string[] = [];
  let failure: Error | undefined;
  let deliver: (task: ProviderTask) => Promise<void> = async () => undefined;
  let watcher: (ended: SeenSandbox) => void = () => undefined;
  const provider: SandboxProvider = {
    name: "test",
    capabilities: new Set(["pause", "stop"] as const),
    create: async () => undefined,
    restart: async () => undefined,
    pause: async () => undefined,
    resume: async () => undefined,
    stop: async () => undefined,
    inspect: async (ref) => ({ ...ref, state: "missing", reason: "There is none" }),
    destroy: async () => undefined,
    list: async () => [],
    watch: (onEnd) => {
      watcher = onEnd;
      return () => undefined;
    },
    isolation: () => ({ holds: [], doesNotHold: [] }),
    close: async () => undefined,
    ...changes,
  };
  const running = await startProvider({
    provider,
    tasks: {
      receive: async (handle) => {
        deliver = (task) => handle(task, new AbortController().signal);
        return { close: async () => undefined };
      },
    },
    reports: {
      send: async (id, report) => {
        if (failure !== undefined) throw failure;
        ids.push(id);
        reports.push(report);
      },
    },
    log: silentLog,
  });
  return {
    ...{ reports, ids, close: running.close },
    deliver: (task: ProviderTask) => deliver(task),
    end: (ended: SeenSandbox) => watcher(ended),
    fail: (error: Error) => {
      failure = error;
    },
  };
}
