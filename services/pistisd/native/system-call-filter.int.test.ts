import { expect } from "chai";
import { run } from "../testing/ask.ts";
import { openBrain, openSandbox, type SandboxOptions } from "../testing/sandbox.ts";

/** A vsock socket, io_uring (one number on every processor), and whether there is a filter. */
const TRIES = `perl -e 'socket(my $s, 40, 1, 0) or print "vsock $!\\n"; my $p = "\\0" x 128; print "io_uring ", syscall(425, 1, $p) == -1 ? $! + 0 : "done", "\\n"'
grep ^Seccomp: /proc/self/status | tr -d '\\t'`;

async function seenIn(options: SandboxOptions): Promise<string> {
  const sandbox = await openSandbox(options);
  try {
    return (await run(sandbox, await openBrain(sandbox), TRIES)).text;
  } finally {
    await sandbox.close();
  }
}

describe("pistisd's own system-call filter", () => {
  it("takes sockets outside of every network namespace, and io_uring, from commands where nobody can gain privileges", async () => {
    const seen = await seenIn({ prefix: ["setpriv", "--no-new-privs"] });
    expect(seen).to.equal("vsock Address family not supported by protocol\nio_uring 38\nSeccomp:2\n");
  });

  it("leaves the commands of a machine of one's own alone", async () => {
    expect(await seenIn({})).to.contain("Seccomp:0\n");
  });

  it("holds in a sandbox on a C library of pistisd's own", async () => {
    const seen = await seenIn({ program: "pistisd-musl", handsOverToken: true, prefix: ["setpriv", "--no-new-privs"] });
    expect(seen).to.contain("Seccomp:2\n").and.contain("io_uring 38\n");
  });
});
