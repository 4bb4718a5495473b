import { expect } from "chai";
import { run } from "../testing/ask.ts";
import type { PeerChannel } from "../testing/peer-channel.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";

const GIT = "git -c user.name=a -c user.email=a@example.org -c init.defaultBranch=main";

describe("commands that would ask or show something", () => {
  let sandbox: TestSandbox;
  let brain: PeerChannel;
  before(async () => {
    sandbox = await openSandbox({ environment: { JAVA_HOME: "/opt/java", LD_LIBRARY_PATH: "/nowhere", API_KEY: "k" } });
    brain = await openBrain(sandbox);
  });
  after(() => sandbox.close());

  it("C75: gives a command that asks y/n nothing to read, so that it ends", async () => {
    const { outcome, text } = await run(
      sandbox,
      brain,
      'printf "Go on? [y/N] "; read -r answer || echo "no answer"; cat',
    );
    expect(text).to.equal("Go on? [y/N] no answer\n");
    expect(outcome).to.deep.equal({ status: "exited", exitCode: 0 });
  });

  it("C75: has no terminal on which a program could ask around standard input", async () => {
    const { text } = await run(sandbox, brain, "(: < /dev/tty) 2>/dev/null && echo terminal || echo none; tty");
    expect(text).to.equal("none\nnot a tty\n");
  });

  it("C73: ends `git rebase -i` and `git commit --amend` without an editor", async () => {
    const setup = `${GIT} init -q r && cd r && for i in 1 2 3; do ${GIT} commit -q --allow-empty -m "c$i"; done`;
    expect((await run(sandbox, brain, setup)).outcome).to.deep.equal({ status: "exited", exitCode: 0 });
    const rebase = await run(sandbox, brain, { command: `${GIT} rebase -i HEAD~2`, cwd: "r", timeoutMs: 20_000 });
    expect(rebase.outcome).to.deep.equal({ status: "exited", exitCode: 0 });
    const amend = await run(sandbox, brain, {
      command: `${GIT} commit --amend --allow-empty`,
      cwd: "r",
      timeoutMs: 20_000,
    });
    expect(amend.outcome.status).to.equal("exited");
  });

  it("C73: shows a long log without a pager", async () => {
    const { text } = await run(sandbox, brain, {
      command: `${GIT} --paginate log --format=%s`,
      cwd: "r",
      timeoutMs: 20_000,
    });
    expect(text).to.equal("c3\nc2\nc1\n");
  });

  it("C75: fails a git clone that wants a password instead of asking for it", async () => {
    const { text } = await run(
      sandbox,
      brain,
      "printf 'protocol=https\\nhost=example.org\\n\\n' | git credential fill; true",
    );
    expect(text).to.match(/terminal prompts disabled|could not read|^protocol=https/m);
  });

  it("S41: gives commands the image's tools, and neither a secret nor a linker setting of the daemon", async () => {
    const names = (await run(sandbox, brain, "env | cut -d= -f1 | sort")).text.split("\n");
    expect(names).to.include.members(["PATH", "HOME", "JAVA_HOME", "CI", "GIT_EDITOR", "PISTIS_CALL"]);
    expect(
      names.filter((name) => /^(LD_|BUN_|API_KEY)|TOKEN|SECRET|PISTIS_(?!CALL$)|PISTISD/.test(name)),
    ).to.deep.equal([]);
  });

  it("lets a request set no name of the daemon's or the linker's", async () => {
    const env = { LD_PRELOAD: "/x.so", PISTIS_CALL: "other", FINE: "1", "bad-name": "2" };
    const { text } = await run(sandbox, brain, {
      command: 'echo "$LD_PRELOAD,$FINE"; case $PISTIS_CALL in other) echo taken;; esac',
      env,
    });
    expect(text).to.equal(",1\n");
  });
});
