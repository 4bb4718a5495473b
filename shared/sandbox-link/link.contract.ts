// What every way to a sandbox promises. `open` gives a link to a sandbox that is there, with a script in its hand.
import { expect } from "chai";
import { Refusal } from "#shared/errors/errors.ts";
import { CallNotRun, SandboxLost } from "./link.ts";
import { describeFiles } from "./link-files.contract.ts";
import {
  command,
  excerpt,
  failureOf,
  type LinkUnderTest,
  MIB,
  noteOutput,
  patterned,
  readAll,
} from "./link-under-test.ts";

export function describeLink(name: string, open: () => Promise<LinkUnderTest>): void {
  describe(`a sandbox link: ${name}`, () => {
    let it_: LinkUnderTest;
    beforeEach(async () => {
      it_ = await open();
      await it_.link.ready(5_000);
    });
    afterEach(() => it_.close());

    it("gives the result of a command after all of its output", async () => {
      const { link, sandbox } = it_;
      const output = noteOutput();
      const running = link.exec(command("cal_1"), output);
      await sandbox.asked("exec");
      sandbox.print("cal_1", Buffer.from([0x61, 0xff, 0x00]));
      sandbox.finish("cal_1", 2);
      expect((await running).outcome).to.deep.equal({ status: "exited", exitCode: 2 });
      expect(output.bytes()).to.deep.equal(Buffer.from([0x61, 0xff, 0x00]));
    });

    it("C84: holds a slow reader's output back in the sandbox and loses none of it", async () => {
      const { link, sandbox } = it_;
      const whole = patterned(8 * MIB);
      const seen: Uint8Array[] = [];
      const running = link.exec(command("cal_1"), {
        onOutput: async ({ bytes }) => {
          seen.push(bytes);
          await new Promise((resolve) => setImmediate(resolve));
        },
      });
      await sandbox.asked("exec");
      sandbox.print("cal_1", whole);
      sandbox.finish("cal_1");
      await running;
      expect(Buffer.concat(seen).equals(whole)).to.equal(true);
    });

    it("C25: goes on without gap or repeat when the connection is cut, with the same process", async () => {
      const { link, sandbox, cut } = it_;
      const output = noteOutput();
      const running = link.exec(command("cal_1"), output);
      await sandbox.asked("exec");
      for (const part of ["one ", "two ", "three "]) {
        sandbox.print("cal_1", Buffer.from(part));
        await output.until(part);
        await cut();
      }
      sandbox.print("cal_1", Buffer.from("four"));
      sandbox.finish("cal_1");
      expect((await running).outputBytes).to.equal(18);
      expect(output.text()).to.equal("one two three four");
      expect(sandbox.calls.get("cal_1")?.runs).to.equal(1);
    });

    it("I2: asks about a call that it sent and never sends it again", async () => {
      const { link, sandbox, cut } = it_;
      const running = link.exec(command("cal_1"));
      await sandbox.asked("exec");
      await cut();
      await sandbox.asked("attach", "cal_1");
      sandbox.finish("cal_1");
      await running;
      expect(sandbox.requests.filter(({ op }) => op === "exec")).to.have.length(1);
    });

    it("says that a call did not run when pistisd never saw it", async () => {
      const { link, sandbox, cut } = it_;
      sandbox.override = ({ op }) => op === "exec";
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      await cut();
      expect(await running).to.be.instanceOf(CallNotRun);
      expect(sandbox.barred.has("cal_1")).to.equal(true);
    });

    it("S11: says that the outcome is unknown when pistisd was restarted while the call ran", async () => {
      const { link, sandbox, cut } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      sandbox.override = ({ op }, reply) => {
        if (op === "attach") reply({ answer: { state: "lost" } });
        return op === "attach";
      };
      await cut({ boot: "boot2" });
      expect(await running)
        .to.be.instanceOf(SandboxLost)
        .and.to.include({ code: "restarted" });
      expect((await link.ready(5_000)).bootId).to.equal("boot2");
    });

    it("does not believe a replaced sandbox about a call of the old one", async () => {
      const { link, sandbox, cut } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      sandbox.calls.clear();
      await cut({ boot: "boot2", generation: 2 });
      expect(await running)
        .to.be.instanceOf(SandboxLost)
        .and.to.include({ code: "restarted" });
      expect(sandbox.requests.some(({ op }) => op === "attach")).to.equal(false);
    });

    it("S11: gives up when the sandbox stays away, and sends nothing later", async () => {
      const { link, sandbox, remove } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      await remove();
      expect(await running)
        .to.be.instanceOf(SandboxLost)
        .and.to.include({ code: "unreachable" });
      expect(await failureOf(link.exec(command("cal_2")))).to.be.instanceOf(CallNotRun);
      expect(await failureOf(link.listFiles({ path: ".", depth: 1, entriesMax: 1 }))).to.be.instanceOf(SandboxLost);
      expect(await failureOf(link.ready(10))).to.be.instanceOf(SandboxLost);
    });

    it("tells what an earlier call became, and waits for one that runs", async () => {
      const { link, sandbox } = it_;
      const asked = { callId: "cal_9", excerpt, from: 0 };
      expect(await link.attach(asked)).to.deep.equal({ state: "never-seen" });
      const first = link.exec(command("cal_1"));
      await sandbox.asked("exec");
      const output = noteOutput();
      const attached = link.attach({ ...asked, callId: "cal_1", from: 4 }, output);
      sandbox.print("cal_1", Buffer.from("0123456789"));
      sandbox.finish("cal_1");
      expect(await attached).to.deep.include({ state: "finished", result: await first });
      expect(output.text()).to.equal("456789");
    });

    it("gives up waiting for the end of an earlier call when its time is over, also after a reconnect", async () => {
      const { link, sandbox, cut } = it_;
      sandbox.override = ({ op }) => op === "attach";
      const given = failureOf(link.attach({ callId: "cal_1", excerpt, from: 0 }, { ...noteOutput(), withinMs: 200 }));
      await sandbox.asked("attach");
      await cut();
      expect(await given)
        .to.be.instanceOf(SandboxLost)
        .and.to.include({ code: "unreachable" });
      expect(await link.processes()).to.deep.equal({ processes: [] });
    });

    it("passes on pistisd's refusal with its code", async () => {
      const { link, sandbox } = it_;
      sandbox.override = (_request, reply) => {
        reply({ failure: { code: "outside_workspace", message: "No", next: "Stay inside" } });
        return true;
      };
      const failures = [
        () => link.exec(command("cal_1"), noteOutput()),
        () => link.listFiles({ path: "..", depth: 1, entriesMax: 1 }),
        () => link.readFile("..", 0, 1).info,
        () => readAll(link.readFile("..", 0, 1).bytes),
        () => readAll(link.readOutput("cal_1", 0, 1)),
        () => link.writeFile({ callId: "cal_2", path: "..", size: 3 * MIB }, [patterned(3 * MIB)]),
        () => link.editFile({ callId: "cal_3", path: "..", edits: [{ old: "a", new: "b", all: false }] }),
      ];
      for (const failing of failures) {
        expect(await failureOf(failing()))
          .to.be.instanceOf(Refusal)
          .and.to.include({ code: "outside_workspace" });
      }
    });

    describeFiles(() => it_);

    it("repeats a question after a cut, but not a signal", async () => {
      const { link, sandbox, cut } = it_;
      sandbox.override = ({ op }) => op === "fileList" || op === "signal";
      const listed = link.listFiles({ path: ".", depth: 1, entriesMax: 1 });
      const signalled = failureOf(link.signal({ callId: "cal_1", signal: "SIGUSR1" }));
      await sandbox.asked("signal");
      sandbox.override = () => false;
      await cut();
      expect(await listed).to.deep.equal({ entries: [], truncated: false });
      expect(await signalled).to.be.instanceOf(SandboxLost);
      expect(sandbox.requests.filter(({ op }) => op === "signal")).to.have.length(1);
    });

    it("fails what is under way when it is closed, and everything after", async () => {
      const { link, sandbox } = it_;
      const running = failureOf(link.exec(command("cal_1")));
      await sandbox.asked("exec");
      await link.close();
      expect(await running).to.be.instanceOf(SandboxLost);
      expect(await failureOf(link.exec(command("cal_2")))).to.be.instanceOf(SandboxLost);
      await link.close();
    });
  });
}
