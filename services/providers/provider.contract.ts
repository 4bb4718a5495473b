// What every provider promises, as tests. Each provider's own test calls this once.
import { expect } from "chai";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import type { SandboxProvider, SeenSandbox, StartSandbox } from "./provider.ts";

export type ProviderUnderTest = Readonly<{
  provider: SandboxProvider;
  /** The same resources through a provider of another install. */
  openOther: () => Promise<SandboxProvider>;
  /** Ends the sandbox as a crash does, behind the provider's back. */
  crash: (sandboxId: string) => Promise<void>;
  /** Runs a shell command in the sandbox and answers its output. */
  run: (sandboxId: string, command: string) => Promise<string>;
  dispose: () => Promise<void>;
}>;

export const contractSpec: SandboxSpec = {
  image: null,
  memoryMiB: 256,
  cpuCores: 1,
  processesMax: 64,
  diskMiB: 256,
  network: { mode: "none" },
};

export function startRequest(changes: Partial<StartSandbox> = {}): StartSandbox {
  return {
    sandboxId: newId("sandbox"),
    session: newId("session"),
    generation: 1,
    taskId: newId("task"),
    spec: contractSpec,
    joinToken: "contract-join-token-contract-join-token",
    ...changes,
  };
}

export function describeProvider(name: string, open: () => Promise<ProviderUnderTest>) {
  describe(`sandbox provider: ${name}`, () => {
    let opened: ProviderUnderTest;
    let provider: SandboxProvider;
    beforeEach(async () => {
      opened = await open();
      provider = opened.provider;
    });
    afterEach(() => opened.dispose());

    describeLife(() => opened);
    describeCapabilities(() => opened);

    it("does not start for a task that it did already", async () => {
      const request = startRequest();
      await provider.create(request);
      await opened.run(request.sandboxId, "echo kept > /tmp/in-memory");
      await provider.create(request);
      await provider.restart(request);
      expect(await opened.run(request.sandboxId, "cat /tmp/in-memory")).to.equal("kept\n");
    });

    it("refuses to restart what is not there", async () => {
      await refused(provider.restart(startRequest()), "sandbox_missing");
    });

    it("leaves a newer generation alone when the older one is asked for late", async () => {
      const older = startRequest();
      const newer = { ...older, generation: 2, taskId: newId("task") };
      await provider.create(older);
      await opened.run(older.sandboxId, "echo old > /workspace/of");
      await provider.create(newer);
      expect(await opened.run(newer.sandboxId, "ls /workspace")).to.equal("");
      await refused(provider.create({ ...older, taskId: newId("task") }), "generation_old");
      await refused(provider.restart({ ...older, taskId: newId("task") }), "generation_old");
      await provider.destroy(older);
      expect((await provider.inspect(newer)).state).to.equal("running");
      expect((await provider.inspect(older)).state).to.equal("missing");
    });

    it("lists its install's sandboxes and none of another's", async () => {
      const request = startRequest();
      await provider.create(request);
      const other = await opened.openOther();
      try {
        expect(await other.list()).to.deep.equal([]);
        expect((await provider.list()).map(({ sandboxId }) => sandboxId)).to.deep.equal([request.sandboxId]);
        await other.destroy(request).catch(onlyRefusal);
        expect((await provider.inspect(request)).state).to.equal("running");
      } finally {
        await other.close();
      }
    });
  });
}

/** Each call once, for the same provider in other surroundings: there the calls may fail, and what they promise is the same. */
export function describeOneLife(name: string, open: () => Promise<ProviderUnderTest>) {
  it(`takes a sandbox through every state and leaves nothing: ${name}`, async () => {
    const { provider, openOther, crash, run, dispose } = await open();
    try {
      const request = startRequest();
      const again = () => provider.restart({ ...request, taskId: newId("task") });
      await provider.create(request);
      await provider.create(request);
      await run(request.sandboxId, "echo work > /workspace/file; echo kept > ~/file");
      await provider.pause(request);
      expect((await provider.inspect(request)).state).to.equal("paused");
      await provider.resume(request);
      await provider.stop(request);
      await again();
      const ended = new Promise<SeenSandbox>((resolve) => provider.watch(resolve));
      await crash(request.sandboxId);
      expect(await ended).to.include({ sandboxId: request.sandboxId, state: "stopped" });
      await again();
      expect(await run(request.sandboxId, "cat /workspace/file; cat ~/file")).to.equal("work\nkept\n");
      const other = await openOther();
      expect(await other.list()).to.deep.equal([]);
      await other.close();
      const newer = { ...request, generation: 2, taskId: newId("task") };
      await provider.create(newer);
      expect((await provider.list()).map(({ generation }) => generation)).to.deep.equal([2]);
      await provider.destroy(newer);
      expect(await provider.list()).to.deep.equal([]);
    } finally {
      await dispose();
    }
  });
}

function describeCapabilities(opened: () => ProviderUnderTest) {
  it("pauses and resumes with what is in memory, each as often as asked, or refuses to", async () => {
    const { provider, run } = opened();
    const request = startRequest();
    await provider.create(request);
    if (!provider.capabilities.has("pause")) {
      await refused(provider.pause(request), "pause_unsupported");
      await refused(provider.resume(request), "pause_unsupported");
      return;
    }
    await run(request.sandboxId, "echo kept > /tmp/in-memory");
    await provider.pause(request);
    await provider.pause(request);
    expect((await provider.inspect(request)).state).to.equal("paused");
    await provider.resume(request);
    await provider.resume(request);
    expect((await provider.inspect(request)).state).to.equal("running");
    expect(await run(request.sandboxId, "cat /tmp/in-memory")).to.equal("kept\n");
  });

  it("stops as often as asked, tells nobody of it, and starts again with the disk, or refuses to", async () => {
    const { provider, run } = opened();
    const request = startRequest();
    await provider.create(request);
    if (!provider.capabilities.has("stop")) return refused(provider.stop(request), "stop_unsupported");
    const told: SeenSandbox[] = [];
    provider.watch((ended) => told.push(ended));
    await run(request.sandboxId, "echo work > /workspace/file");
    await provider.stop(request);
    await provider.stop(request);
    expect((await provider.inspect(request)).state).to.equal("stopped");
    if (provider.capabilities.has("pause")) {
      await refused(provider.pause(request), "sandbox_not_running");
      await refused(provider.resume(request), "sandbox_not_running");
    }
    await provider.restart({ ...request, taskId: newId("task") });
    expect(await run(request.sandboxId, "cat /workspace/file")).to.equal("work\n");
    expect(told).to.deep.equal([]);
  });

  it("stops, restarts and destroys a paused sandbox", async () => {
    const { provider, run } = opened();
    const request = startRequest();
    if (!provider.capabilities.has("pause")) return refused(provider.resume(request), "pause_unsupported");
    await provider.create(request);
    await provider.pause(request);
    await provider.stop(request);
    expect((await provider.inspect(request)).state).to.equal("stopped");
    await provider.restart({ ...request, taskId: newId("task") });
    await provider.pause(request);
    await provider.restart({ ...request, taskId: newId("task") });
    expect(await run(request.sandboxId, "echo up")).to.equal("up\n");
    await provider.pause(request);
    await provider.destroy(request);
    expect(await provider.list()).to.deep.equal([]);
  });

  it("pauses, resumes and stops neither what is gone nor an older generation", async () => {
    const { provider } = opened();
    const newer = { ...startRequest(), generation: 2 };
    const older = { ...newer, generation: 1 };
    const calls = [
      ...(provider.capabilities.has("pause") ? [provider.pause, provider.resume] : []),
      ...(provider.capabilities.has("stop") ? [provider.stop] : []),
    ];
    for (const call of calls) await refused(call(newer), "sandbox_missing");
    await provider.create(newer);
    for (const call of calls) await refused(call(older), "generation_old");
    expect((await provider.inspect(newer)).state).to.equal("running");
  });
}

function describeLife(opened: () => ProviderUnderTest) {
  it("creates, inspects and destroys, each as often as asked", async () => {
    const { provider } = opened();
    const request = startRequest();
    expect((await provider.inspect(request)).state).to.equal("missing");
    await provider.create(request);
    expect((await provider.inspect(request)).state).to.equal("running");
    await provider.destroy(request);
    await provider.destroy(request);
    expect((await provider.inspect(request)).state).to.equal("missing");
    expect(await provider.list()).to.deep.equal([]);
  });

  it("tells of a sandbox that ended by itself, and starts it again with its disk", async () => {
    const { provider, crash, run } = opened();
    const request = startRequest();
    await provider.create(request);
    await run(request.sandboxId, "echo work > /workspace/file");
    const ended = new Promise<SeenSandbox>((resolve) => provider.watch(resolve));
    await crash(request.sandboxId);
    expect(await ended).to.include({ sandboxId: request.sandboxId, session: request.session, state: "stopped" });
    expect((await provider.inspect(request)).state).to.equal("stopped");
    await provider.restart({ ...request, taskId: newId("task") });
    expect((await provider.inspect(request)).state).to.equal("running");
    expect(await run(request.sandboxId, "cat /workspace/file")).to.equal("work\n");
  });

  it("tells nobody of an end that was asked for", async () => {
    const { provider, run } = opened();
    const request = startRequest();
    const told: SeenSandbox[] = [];
    provider.watch((ended) => told.push(ended));
    await provider.create(request);
    await provider.restart({ ...request, taskId: newId("task") });
    expect(await run(request.sandboxId, "echo up")).to.equal("up\n");
    await provider.destroy(request);
    expect(told).to.deep.equal([]);
  });
}

async function refused(work: Promise<void>, code: string): Promise<void> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).to.be.instanceOf(Refusal).with.property("code", code);
}

function onlyRefusal(error: unknown): void {
  expect(error).to.be.instanceOf(Refusal);
}
