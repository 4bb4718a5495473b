// The local provider with the real pistisd in it, over the real relay.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect } from "chai";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import type { ExecResult } from "#schemas/wire/message.ts";
import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { openLocalProvider } from "#services/providers/local/local-provider.ts";
import { startRequest } from "#services/providers/provider.contract.ts";
import type { SandboxProvider, SeenSandbox, StartSandbox } from "#services/providers/provider.ts";
import {
  linksTo,
  type RelayUnderTest,
  registerToken,
  startRelayForTest,
} from "#services/relay/tests/relay-under-test.ts";
import { newId } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { silentLog } from "#shared/service/log.ts";

const PISTISD_FOLDER = join(import.meta.dirname, "..", "dist", "pistisd");
const LIMITS = { image: null, memoryMiB: 1_024, cpuCores: 2, processesMax: 200, diskMiB: 1_024 };
const spec: SandboxSpec = { ...LIMITS, network: { mode: "none" } };

describe("a local sandbox", () => {
  let folder: string;
  let relay: RelayUnderTest;
  let provider: SandboxProvider;
  let request: StartSandbox;
  let link: SandboxLink;
  let ended: SeenSandbox[];
  let joined: { wait: Promise<void>; tell: () => void };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-sandbox-"));
    const relaySocketFolder = join(folder, "relay");
    relay = await startRelayForTest({ socketFolder: relaySocketFolder, reportJoined: async () => joined.tell() });
    provider = await openLocalProvider({
      ...{ stateDir: join(folder, "state"), installId: folder, relaySocketFolder, pistisdFolder: PISTISD_FOLDER },
      readOnly: { "/opt/node": dirname(process.execPath) },
      log: silentLog,
    });
    ended = [];
    provider.watch((seen) => ended.push(seen));
    request = startRequest({ spec });
    await joinedAfter(() => provider.create(request));
    link = linksTo(relay)({ sandboxId: request.sandboxId, role: "service" });
  });
  afterEach(async () => {
    await link.close();
    await provider.close();
    await relay.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Starts it with a new token and waits until pistisd has joined. */
  async function joinedAfter(start: () => Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    joined = { wait: promise, tell: resolve };
    const { token } = await registerToken(relay, request.sandboxId);
    request = { ...request, taskId: newId("task"), joinToken: token };
    await start();
    await joined.wait;
  }

  async function sh(command: string): Promise<{ outcome: ExecResult["outcome"]; text: string }> {
    const excerpt = { headBytes: 10_000, tailBytes: 1_000 };
    const result = await link.exec({ callId: newId("call"), command, timeoutMs: 30_000, background: false, excerpt });
    return { outcome: result.outcome, text: Buffer.from(result.head, "base64").toString("utf8") };
  }

  it("runs commands as process 1's children in /workspace, with the usual rights on new files", async () => {
    expect((await sh("pwd; id -un; umask; cat /proc/1/comm")).text).to.equal("/workspace\npistis\n0022\npistisd\n");
  });

  it("keeps /workspace over an end and a restart with a new token", async () => {
    await sh("echo work > file");
    await joinedAfter(() => provider.restart(request));
    expect((await sh("cat file")).text).to.equal("work\n");
    expect(ended).to.deep.equal([]);
  });

  it("survives a fork bomb, and a command that kills all that it can", async () => {
    await sh("(:(){ :|:& };:) 2>/dev/null; sleep 1");
    await sh("kill -9 -1");
    const { processes } = await link.processes();
    for (const { callId } of processes.filter(({ running }) => running)) await link.stop(callId, 0);
    expect((await sh("echo usable")).text).to.equal("usable\n");
    expect(ended).to.deep.equal([]);
  });

  it("C79: loses only the command that takes more memory than there is", async () => {
    const { outcome } = await sh("exec tail -n 1 < /dev/zero");
    expect(outcome.status).to.be.oneOf(["signalled", "exited"]);
    expect((await sh("echo usable")).text).to.equal("usable\n");
    expect(ended).to.deep.equal([]);
  });

  it("S2: reaches the relay, and none of its endpoints without a key", async () => {
    const script = `
      const ask = (path) => new Promise((resolve, reject) => require("node:http")
        .get({ socketPath: "/run/pistis/${relaySocketName(request.sandboxId)}", path }, ({ statusCode }) => resolve(statusCode)).on("error", reject));
      Promise.all(["/healthz", "/v1/sandboxes", "/v1/sandboxes/${request.sandboxId}/attach"].map(ask)).then((all) => { console.log(all); process.exit(); })`;
    await link.writeFile({ callId: newId("call"), path: "ask.cjs", size: Buffer.byteLength(script) }, [
      Buffer.from(script),
    ]);
    expect((await sh("/opt/node/node ask.cjs")).text).to.match(/^\[ 200, 40[134], 4\d\d \]\n$/);
  });
});
