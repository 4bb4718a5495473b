import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { type OpenLink, type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import type { SandboxPeer } from "../testing/sandbox-peer.ts";
import { World } from "../testing/world.ts";
import { END_MARGIN_MS } from "./recovery.ts";

const UNTIL_GO = "echo waiting; while [ ! -e go ]; do sleep 0.02; done; echo went on";

describe("taking a turn over", () => {
  let world: World;
  afterEach(() => world.close());

  const ofType = (events: PistisEvent[], type: string) => events.filter((event) => event.type === type);
  const ops = (peer: SandboxPeer, op: string) => peer.received.filter((event) => event.op === op);

  async function session(config = {}): Promise<{ id: string; peer: SandboxPeer }> {
    world = new World({ config, schedules: false });
    const id = await world.createSession();
    await world.post(id, "Go on");
    const peer = await world.joinSandbox(id);
    return { id, peer };
  }

  const bash = (command: string) => ({ callId: newId("call"), tool: "bash", input: { command } });

  it("C17: attaches to a command that still runs; it runs once", async () => {
    world = new World();
    const first = await world.startBrain("brain-a");
    const id = await world.createSession();
    await world.post(id, `$ ${UNTIL_GO}\n$ echo next`);
    const peer = await world.peerOf(id);
    await world.first(id, "ToolStarted");
    await peer.has("exec");
    await first.close();
    await world.startBrain("brain-b");
    await peer.has("attach");
    await peer.touch("go");
    expect((await world.first(id, "ToolDone")).data.text).to.contain("went on");
    expect((await world.first(id, "ToolDone", 1)).data.text).to.contain("next");
    await world.first(id, "TurnEnded");
    expect(ops(peer, "exec")).to.have.length(2);
    expect(ofType(await world.events(id), "TurnTakenOver")).to.have.length(1);
  });

  it("C23, I4: a brain that hung and comes back appends nothing and sends nothing", async () => {
    world = new World();
    await world.startBrain("brain-a");
    const id = await world.createSession();
    await world.post(id, `$ ${UNTIL_GO}\n$ echo next`);
    const peer = await world.peerOf(id);
    await peer.has("exec");
    world.leases.slip(id);
    await world.startBrain("brain-b");
    await peer.has("attach");
    await peer.touch("go");
    await world.first(id, "TurnEnded");
    const events = await world.events(id);
    expect(ofType(events, "ToolDone")).to.have.length(2);
    expect(ofType(events, "TurnEnded")).to.have.length(1);
    expect(ops(peer, "exec").map(({ epoch }) => epoch)).to.deep.equal([1, 2]);
  });

  it("asks on a new link, also when it still has one from a turn of its own", async () => {
    world = new World();
    const id = await world.createSession();
    await world.startBrain("brain-a");
    await world.post(id, "$ echo mine");
    await world.first(id, "TurnEnded");
    const peer = await world.peerOf(id);
    const lease = await world.leases.take(id, "brain-z");
    await world.post(id, "Go on");
    await world.leaveOpenCalls(id, 2, bash("echo never"));
    await lease.release();
    expect((await world.first(id, "ToolNotRun")).data.reason).to.equal("never_seen");
    await world.first(id, "TurnEnded", 1);
    expect(ops(peer, "attach").map(({ epoch }) => epoch)).to.deep.equal([3]);
  });

  it("takes over the handle of a background command that goes on", async () => {
    const { id, peer } = await session();
    const call = { callId: newId("call"), tool: "bash", input: { command: "sleep 1000", background: true } };
    const link = peer.openLink({ sandboxId: peer.sandboxId, role: "brain", epoch: 1 });
    const request = { callId: call.callId, command: "sleep 1000", timeoutMs: 60_000, background: true };
    await link.exec({ ...request, excerpt: { headBytes: 10, tailBytes: 10 } });
    await world.leaveOpenCalls(id, 1, call);
    await world.startBrain();
    const { outcome } = (await world.first(id, "ToolDone")).data;
    expect(outcome).to.deep.equal({ status: "background", handle: call.callId });
  });

  it("C24, I5: says that a call which never arrived did not run", async () => {
    const { id, peer } = await session();
    await world.leaveOpenCalls(id, 1, bash("echo hello"));
    await world.startBrain();
    expect((await world.first(id, "ToolNotRun")).data.reason).to.equal("never_seen");
    await world.first(id, "TurnEnded");
    expect(ops(peer, "exec")).to.deep.equal([]);
  });

  it("C18, I3: gives every one of several open calls exactly one end", async () => {
    const { id, peer } = await session();
    const ran = bash("echo ran");
    const link = peer.openLink({ sandboxId: peer.sandboxId, role: "brain", epoch: 1 });
    const request = { callId: ran.callId, command: "echo ran", timeoutMs: 5_000, background: false };
    await link.exec({ ...request, excerpt: { headBytes: 100, tailBytes: 100 } });
    const read = { callId: newId("call"), tool: "read", input: { path: "a" } };
    await world.leaveOpenCalls(id, 1, ran, bash("echo never"), read);
    await world.startBrain();
    await world.first(id, "TurnEnded");
    const events = await world.events(id);
    expect(ofType(events, "ToolDone")).to.have.length(1);
    expect((await world.first(id, "ToolDone")).data.text).to.contain("ran");
    expect(ofType(events, "ToolNotRun")).to.have.length(1);
    expect((await world.first(id, "ToolOutcomeUnknown")).data).to.deep.include({ callId: read.callId });
    expect(ops(peer, "exec")).to.have.length(1);
  });

  it("I5: reports unknown when the sandbox does not answer in time", async () => {
    const { id, peer } = await session({ recovery: { reattachMs: 50 } });
    await world.leaveOpenCalls(id, 1, bash("echo hello"));
    peer.goOffline();
    await world.startBrain();
    expect((await world.first(id, "ToolOutcomeUnknown")).data.reason).to.equal("sandbox_unreachable");
    peer.comeBack();
    await world.first(id, "TurnEnded");
  });

  it("I5: waits for the end of a call no longer than the call itself may take", async () => {
    const { id, peer } = await session({ recovery: { reattachMs: 50 } });
    const waits: unknown[] = [];
    const attach: SandboxLink["attach"] = (_asked, { withinMs } = {}) => {
      waits.push(withinMs);
      return Promise.reject(new SandboxLost("unreachable", "It told no end in time"));
    };
    const openLink: OpenLink = (asked) => ({ ...peer.openLink(asked), attach });
    const background = { callId: newId("call"), tool: "bash", input: { command: "make", background: true } };
    const timed = { callId: newId("call"), tool: "bash", input: { command: "make", timeoutMs: 7_000 } };
    await world.leaveOpenCalls(id, 1, timed, background);
    await world.startBrain("brain-a", { openLink });
    expect((await world.first(id, "ToolOutcomeUnknown", 1)).data.reason).to.equal("sandbox_unreachable");
    expect(waits).to.deep.equal([7_050 + END_MARGIN_MS, 50 + END_MARGIN_MS]);
  });

  it("reports unknown without asking when recovery.reattach is off", async () => {
    const { id, peer } = await session({ recovery: { reattach: false } });
    await world.leaveOpenCalls(id, 1, bash("echo hello"));
    await world.startBrain();
    expect((await world.first(id, "ToolOutcomeUnknown")).data.reason).to.equal("taken_over");
    await world.first(id, "TurnEnded");
    expect(ops(peer, "attach")).to.deep.equal([]);
  });

  it("reports unknown when the call's sandbox is not up any more", async () => {
    const { id, peer } = await session();
    await world.leaveOpenCalls(id, 1, bash("echo hello"));
    const sandbox = { sandboxId: peer.sandboxId, generation: 1 };
    await world.append("scheduler", id, { type: "SandboxStopped", data: { ...sandbox, reason: "crash" } });
    await world.startBrain();
    expect((await world.first(id, "ToolOutcomeUnknown")).data.reason).to.equal("sandbox_gone");
  });

  it("reports unknown, and asks nothing, when another generation took the place of the call's sandbox", async () => {
    const { id, peer } = await session();
    const call = bash("echo ran");
    const link = peer.openLink({ sandboxId: peer.sandboxId, role: "brain", epoch: 1 });
    const request = { callId: call.callId, command: "echo ran", timeoutMs: 5_000, background: false };
    await link.exec({ ...request, excerpt: { headBytes: 10, tailBytes: 10 } });
    await world.leaveOpenCalls(id, 1, call);
    const { sandboxId } = peer;
    await world.append("scheduler", id, { type: "SandboxMissing", data: { sandboxId, generation: 1 } });
    const second = await world.joinSandbox(id, 2);
    expect(second.sandboxId).to.equal(sandboxId);
    await world.startBrain();
    expect((await world.first(id, "ToolOutcomeUnknown")).data.reason).to.equal("sandbox_gone");
    expect(ops(second, "attach")).to.deep.equal([]);
  });

  it("hears a Stop that was pressed while nobody owned the turn", async () => {
    const { id, peer } = await session();
    const call = bash("sleep 1000");
    const link = peer.openLink({ sandboxId: peer.sandboxId, role: "brain", epoch: 1 });
    const excerpt = { headBytes: 10, tailBytes: 10 };
    const request = { callId: call.callId, command: "sleep 1000", timeoutMs: 60_000, background: false, excerpt };
    const ended = link.exec(request);
    await world.leaveOpenCalls(id, 1, call);
    await world.interrupt(id);
    await world.startBrain();
    expect((await world.first(id, "TurnEnded")).data.reason).to.equal("interrupted");
    expect((await ended).outcome.status).to.equal("stopped");
  });

  it("ends the turn as failed when the sandbox claims a newer epoch that the ledger does not know", async () => {
    const { id, peer } = await session();
    await world.leaveOpenCalls(id, 1, bash("echo hello"));
    await peer.openLink({ sandboxId: peer.sandboxId, role: "brain", epoch: 3 }).ready(1_000);
    await world.startBrain();
    const { reason, failure } = (await world.first(id, "TurnEnded")).data;
    expect([reason, failure?.code]).to.deep.equal(["failed", "sandbox_epoch_newer"]);
    const events = await world.events(id);
    expect(ofType(events, "ToolOutcomeUnknown")).to.have.length(1);
    expect(ofType(events, "TurnTakenOver")).to.have.length(1);
    await world.post(id, "$ echo healed");
    expect((await world.first(id, "ToolDone")).data.text).to.contain("healed");
  });

  it("C63: hears a Stop also when the sandbox claims a newer epoch", async () => {
    const { id, peer } = await session();
    await world.leaveOpenCalls(id, 1, bash("echo hello"));
    await world.interrupt(id);
    const stale = () => Promise.reject(new Refusal("epoch_stale", "A newer brain was here"));
    const openLink: OpenLink = (asked) => ({ ...peer.openLink(asked), ready: stale, attach: stale });
    await world.startBrain("brain-a", { openLink });
    expect((await world.first(id, "TurnEnded")).data.reason).to.equal("interrupted");
    expect(ofType(await world.events(id), "ToolOutcomeUnknown")).to.have.length(1);
  });

  it("stops at once when the lease is lost", async () => {
    world = new World();
    await world.startBrain("brain-a");
    const id = await world.createSession();
    await world.post(id, `$ ${UNTIL_GO}\n$ echo next`);
    const peer = await world.peerOf(id);
    await peer.has("exec");
    world.leases.expire(id);
    // The same brain looks for open turns again and takes its own one over, under a new epoch.
    await peer.has("attach");
    await peer.touch("go");
    await world.first(id, "TurnEnded");
    expect(ops(peer, "exec").map(({ epoch }) => epoch)).to.deep.equal([1, 2]);
  });
});
