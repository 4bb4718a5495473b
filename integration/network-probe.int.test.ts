// The probe of a sandbox's network against servers that are really there, with bubblewrap as it is and with one that
// leaves the sandbox in the server's own network.
import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { z } from "zod";
import { catalogue } from "#schemas/ledger/event.ts";
import { STAND_INS } from "./testing/probed-install.ts";

const run = promisify(execFile);
const PROGRAM = join(import.meta.dirname, "testing", "probed-install.ts");
const RUN_MS_MAX = 100_000;

const outcome = z.object({
  ended: catalogue.TurnEnded.schema,
  probed: z.array(catalogue.EgressProbed.schema),
  types: z.array(z.string()),
});

/** Stand-ins are on the loopback interface, and a gateway on one that looks like a sandbox's. */
const NAMESPACE = [
  "set -e",
  "ip link set lo up",
  `for a in 192.0.2.1 ${STAND_INS.nameServer} 169.254.169.254 ${STAND_INS.gateway}; do ip addr add $a/32 dev lo; done`,
  "ip link add side0 type veth peer name side1",
  "ip addr add 198.51.100.2/29 dev side0",
  "ip link set side0 up; ip link set side1 up",
  'if [ -n "$WRAPPER" ]; then mount -t tmpfs none /usr/local/sbin; cp -p "$WRAPPER" /usr/local/sbin/bwrap; fi',
  'exec "$@"',
].join("\n");

/** Goes on as bubblewrap, but keeps the network that it was started in. Found first in the path of the provider. */
const wrapperOf = (bwrap: string) => `#!/bin/sh
if [ "$1" = --args ]; then fd=$2; shift 2; exec ${bwrap} --args "$fd" --share-net "$@"; fi
exec ${bwrap} "$@"
`;

// Network namespaces with addresses of their own, and a bubblewrap put over the real one, are root's to make.
if (process.getuid?.() === 0) {
  describe("the probe of the network, in a namespace with stand-ins", function () {
    this.timeout(RUN_MS_MAX + 10_000);
    let folder: string;

    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "pistis-probe-"));
      await chmod(folder, 0o755);
    });
    after(() => rm(folder, { recursive: true, force: true }));

    async function wrapper(): Promise<string> {
      const { stdout } = await run("sh", ["-c", "command -v bwrap"]);
      const path = join(folder, "bwrap");
      await writeFile(path, wrapperOf(stdout.trim()));
      await chmod(path, 0o755);
      return path;
    }

    async function installWith(bwrap: string, ...args: string[]) {
      const program = [process.execPath, PROGRAM, ...args];
      const inNamespace = ["--net", "--mount", "--", "sh", "-c", NAMESPACE, "sh", ...program];
      const options = { env: { ...process.env, WRAPPER: bwrap }, timeout: RUN_MS_MAX, killSignal: "SIGKILL" } as const;
      const { stdout } = await run("unshare", inNamespace, options);
      const result = outcome.parse(JSON.parse(stdout));
      const findings = result.probed.flatMap((probed) => probed.findings);
      return { ...result, wrong: findings.filter(({ ok }) => !ok).map(({ target }) => target), findings };
    }

    it("C117, C113: finds a local sandbox closed to what answers right beside it, and the command runs", async () => {
      const { ended, probed, types, findings, wrong } = await installWith("");
      expect(wrong).to.deep.equal([]);
      expect(probed.map(({ passed }) => passed)).to.deep.equal([true]);
      expect(ended.reason).to.equal("completed");
      expect(types.indexOf("EgressProbed")).to.be.below(types.indexOf("ToolStarted"));
      const outcomes = new Map(findings.map(({ target, outcome: how }) => [target, how]));
      expect(outcomes.get(`metadata ${STAND_INS.metadata}`)).to.equal("unreachable");
      expect(outcomes.get("gateways and neighbours")).to.equal("no-interface");
      expect(outcomes.get("the relay's /v1/sandboxes with its own pass")).to.equal("denied");
    });

    it("C116: with an allow list, finds nothing behind an allowed host under another name", async () => {
      const { ended, findings, wrong } = await installWith("", "allow");
      expect(wrong).to.deep.equal([]);
      expect(ended.reason).to.equal("completed");
      const outcomes = new Map(findings.map(({ target, outcome: how }) => [target, how]));
      for (const target of [
        "pistis-probe.invalid:443 through the proxy",
        `${STAND_INS.metadata} through the proxy`,
        `pistis-probe.invalid as the TLS server name behind ${STAND_INS.allowed}`,
        `pistis-probe.invalid as the Host header behind ${STAND_INS.allowed}`,
      ]) {
        expect(outcomes.get(target), target).to.equal("denied");
      }
      expect(outcomes.get(`outside ${STAND_INS.outside} by TCP`)).to.equal("unreachable");
    });

    it("C117: refuses the session of a sandbox that was left in the server's network, with all that got through", async () => {
      const { ended, probed, types, wrong } = await installWith(await wrapper());
      expect(probed.map(({ passed }) => passed)).to.deep.equal([false]);
      expect(wrong).to.include.members([
        `outside ${STAND_INS.outside} by TCP`,
        `outside ${STAND_INS.outside} by UDP`,
        `a name, at ${STAND_INS.nameServer}: ${STAND_INS.nameServer}`,
        `metadata ${STAND_INS.metadata}`,
        `private ${STAND_INS.private}`,
        "the server at 127.0.0.1 by TCP",
        "the server at 127.0.0.1 by UDP",
        "the server's own port, as the server heard",
        `gateways and neighbours: ${STAND_INS.gateway} port ${STAND_INS.gatewayPort}`,
      ]);
      expect(ended.reason).to.equal("failed");
      expect(ended.failure?.code).to.equal("egress_open");
      expect(ended.failure?.message).to.contain(STAND_INS.outside);
      expect(types).to.include("ToolNotRun").and.not.include("ToolStarted");
    });
  });
}
