// The provider run by a user who is not root: what root alone can do must not be needed.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdirSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { expect } from "chai";
import { z } from "zod";
import { untilGone } from "./process-identity.ts";
import { openShellGuests, type ShellGuests } from "./testing/shell-guest.ts";

const USER = 65_533;
const said = z.object({
  request: z.object({ sandboxId: z.string() }),
  life: z.object({ initPid: z.number(), startTicks: z.string() }),
});
type Life = z.output<typeof said>["life"];
const root = resolve(import.meta.dirname, "../../..");
const script = join(import.meta.dirname, "testing", "run-one-sandbox.ts");

const asOther = ["--reuid", `${USER}`, "--regid", `${USER}`, "--clear-groups", "--"];
/** In a mount namespace of its own the checkout is seen at $2 too: below root's home that user could not reach it. */
const BOUND = 'mount --bind "$1" "$2" && shift 2 && exec setpriv "$@"';

// Only root can act as somebody else; for an ordinary user every other test of the provider is this one.
if (process.getuid?.() === 0) {
  describe("the local provider of an ordinary user", () => {
    let guests: ShellGuests;
    beforeEach(async () => {
      guests = await openShellGuests();
    });
    afterEach(() => guests.dispose());

    /** One sandbox of a provider that is run by that user, for as long as the test takes. */
    async function withSandbox(test: (inside: (command: string) => Promise<string>, life: Life) => Promise<void>) {
      const { relaySocketFolder, pistisdFolder, installId } = guests.setting;
      execFileSync("chmod", ["755", guests.folder]);
      const stateDir = join(guests.folder, "own");
      mkdirSync(stateDir);
      chownSync(stateDir, USER, USER);
      const checkout = join(guests.folder, "checkout");
      mkdirSync(checkout);
      const seen = (path: string) => (path.startsWith(`${root}/`) ? join(checkout, relative(root, path)) : path);
      const server = [
        seen(process.execPath),
        seen(script),
        stateDir,
        `${installId}-own`,
        relaySocketFolder,
        pistisdFolder,
      ];
      const bound = ["--mount", "sh", "-c", BOUND, "sh", root, checkout, ...asOther, ...server];
      const child = spawn("unshare", bound, { stdio: ["pipe", "pipe", "inherit"] });
      try {
        const [line] = await once(createInterface({ input: child.stdout }), "line");
        const { request, life } = said.parse(JSON.parse(String(line)));
        await test((command) => guests.runIn(stateDir, request.sandboxId, command), life);
      } finally {
        child.kill("SIGKILL");
      }
    }

    it("runs sandboxes as that user, isolated and limited all the same", () =>
      withSandbox(async (inside) => {
        expect(await inside("id -u; cat /proc/self/uid_map")).to.match(/^1000\n\s+1000\s+0\s+1\n$/);
        expect(await inside("touch /etc/x 2>/dev/null || echo refused; ls /proc | grep -cE '^[0-9]+$'")).to.match(
          /^refused\n[1-7]\n$/,
        );
        const limits = await inside("ulimit -p; ulimit -d; grep Seccomp: /proc/self/status; tail -n +3 /proc/net/dev");
        expect(limits).to.match(/^128\n\d+\nSeccomp:\s2\n\s+lo:.*\n$/);
      }));

    it("ends one over its disk limit, although it hides its files and makes measuring fail in a thousand places", () =>
      withSandbox(async (inside, { initPid, startTicks }) => {
        // What `du` says of these thousand folders is over 1 MiB. Each file alone is below the limit of one file.
        const hide = `cd /workspace; mkdir hidden; exec 3> hidden/one 4> hidden/other; chmod 000 hidden
          n=$(printf '%0200d' 0); p=$n/$n/$n/$n/$n; mkdir -p $p; cd $p; mkdir $(seq 1000); chmod 000 $(seq 1000)
          (head -c 200M /dev/zero >&3; head -c 200M /dev/zero >&4) & echo hid`;
        expect(await inside(hide)).to.equal("hid\n");
        await untilGone({ pid: initPid, startTicks });
      }));
  });
}
