// What a server that died left, as the next one finds it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { expect } from "chai";
import { z } from "zod";
import { newId } from "#shared/ids/ids.ts";
import { startRequest } from "../provider.contract.ts";
import type { StartSandbox } from "../provider.ts";
import { openLocalProvider } from "./local-provider.ts";
import { startTicksOf, untilGone } from "./process-identity.ts";
import { writeLife } from "./sandbox-folder.ts";
import { openShellGuests, type ShellGuests } from "./testing/shell-guest.ts";

const said = z.object({
  request: z.custom<StartSandbox>((value) => typeof value === "object"),
  life: z.object({ initPid: z.number(), startTicks: z.string() }),
});

describe("a local provider after a crash", () => {
  let guests: ShellGuests;
  let children: ChildProcess[];
  beforeEach(async () => {
    guests = await openShellGuests();
    children = [];
  });
  afterEach(async () => {
    for (const child of children) child.kill("SIGKILL");
    await guests.dispose();
  });

  async function server(): Promise<{
    child: ChildProcess;
    request: StartSandbox;
    init: { pid: number; startTicks: string };
  }> {
    const { stateDir, installId, relaySocketFolder, pistisdFolder } = guests.setting;
    const script = join(import.meta.dirname, "testing", "run-one-sandbox.ts");
    const child = spawn(process.execPath, [script, stateDir, installId, relaySocketFolder, pistisdFolder], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    children.push(child);
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    const { request, life } = said.parse(JSON.parse(String(line)));
    return { child, request, init: { pid: life.initPid, startTicks: life.startTicks } };
  }

  it("has no sandbox running, tells the truth about it, and starts it again with its disk", async () => {
    const { child, request, init } = await server();
    await guests.run(request.sandboxId, "echo work > /workspace/file");
    child.kill("SIGKILL");
    await untilGone(init);
    const next = await openLocalProvider(guests.setting);
    try {
      const [seen] = await next.list();
      expect(seen).to.include({ sandboxId: request.sandboxId, session: request.session, state: "stopped" });
      await next.restart({ ...request, taskId: newId("task") });
      expect(await guests.run(request.sandboxId, "cat /workspace/file")).to.equal("work\n");
      await next.destroy(request);
    } finally {
      await next.close();
    }
  });

  it("ends what an earlier server left running", async () => {
    const { init } = await server();
    const next = await openLocalProvider(guests.setting);
    try {
      expect(await startTicksOf(init.pid)).to.not.equal(init.startTicks);
      expect((await next.list()).map(({ state }) => state)).to.deep.equal(["stopped"]);
    } finally {
      await next.close();
    }
  });

  it("does not take another process with the same id for the sandbox", async () => {
    const { provider, setting } = guests;
    const request = startRequest();
    await provider.create(request);
    const ended = new Promise((resolve) => provider.watch(resolve));
    await guests.crash(request.sandboxId);
    await ended;
    await writeLife(setting.stateDir, request.sandboxId, { taskId: "tsk_old", initPid: process.pid, startTicks: "1" });
    expect((await provider.inspect(request)).state).to.equal("stopped");
    await provider.destroy(request);
  });

  it("removes what was half made and half deleted, and leaves out what is damaged", async () => {
    const { setting } = guests;
    const sandboxes = join(setting.stateDir, "sandboxes");
    const damaged = newId("sandbox");
    for (const name of [`.new-${newId("sandbox")}-1`, `.gone-${newId("sandbox")}-1`, damaged])
      mkdirSync(join(sandboxes, name));
    writeFileSync(join(sandboxes, damaged, "meta.json"), "{");
    const next = await openLocalProvider(setting);
    try {
      expect(readdirSync(sandboxes)).to.deep.equal([damaged]);
      expect(await next.list()).to.deep.equal([]);
    } finally {
      await next.close();
    }
    expect(existsSync(join(sandboxes, damaged))).to.equal(true);
  });
});
