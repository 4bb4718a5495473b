// The list of steps against the code: each step is one place, and each effect that a service awaits has a step in its
// function, or is named below with the reason why a death there is the same as one at a step.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect } from "chai";
import { stepNames } from "./step-plan.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");

/** What others can see, or what outlives the process. */
const EFFECT = new RegExp(
  [
    String.raw`[lL]edger\.append\(|\.commit\(|commitAhead\(|handleCommand\(|sessions\.command\(`,
    String.raw`(tasks\(\w+\)|timers|reports)\.send\(|\bfetch\(|writeBatch\(`,
    String.raw`\b(writeFile|rename|removeTree|writeFileSync|renameSync|writeState|replaceFile)\(`,
    String.raw`link\.(exec|writeFile|editFile|stop|signal|raiseEpoch)\(|records\.(begin|end|bar)\(|\.keep(Epoch|Pass)\(`,
    String.raw`consumers\.(add|delete)\(`,
    String.raw`leases\.acquire\(|lease\.release\(`,
  ].join("|"),
);

const POOL = "the pool is off under faults; services/scheduler/pool/pool.test.ts ends a scheduler at every await";

const ALLOWED: Readonly<Record<string, string>> = {
  "services/brain/session/record.ts#commitAhead": "only starts commit; its caller has the step",
  "services/brain/session/record.ts#append": "every commit of the brain; the steps are around them",
  "services/brain/turn/reply.ts#keepHeard":
    "an append like that after a reply: brain.model.replied, brain.reply.stored",
  "services/brain/turn/calls.ts#closeUnsent": "an append like that after a result: brain.call.answered",
  "services/brain/turn/session-run.ts#claim":
    "the append of brain.session.ending; the others have functions of their own",
  "services/brain/turn/workplace.ts#stopLeftovers": "repeats a stop: brain.stop.sent",
  "services/brain/dispatch/dispatch.ts#takeOver": "the lease alone: #work begins with brain.lease.acquired",
  "services/brain/tools/bash.ts#bashTool": "called between brain.call.sending and brain.call.sent",
  "services/brain/tools/files.ts#writeTool": "called between brain.call.sending and brain.call.sent",
  "services/brain/tools/files.ts#editTool": "called between brain.call.sending and brain.call.sent",
  "services/brain/tools/processes.ts#bashKillTool": "called between brain.call.sending and brain.call.sent",
  "services/gateway/session/sessions.ts#runOn": "called by run, between its two steps",
  "services/scheduler/sessions.ts#openSessions": "every append of the scheduler; the steps are around its callers",
  "services/scheduler/pool/handover.ts#claim": POOL,
  "services/scheduler/pool/handover.ts#adopt": POOL,
  "services/scheduler/pool/handover.ts#settleClaim": POOL,
  "services/scheduler/pool/keeper.ts#retire": POOL,
  "services/scheduler/pool/keeper.ts#begin": POOL,
  "services/scheduler/relay/seen-by-relay.ts#seenByRelay": "asks only",
  "services/scheduler/relay/join-tokens.ts#ask": "called between the scheduler.token and scheduler.passes steps",
  "services/publisher/copy/sandbox-repository.ts#sendBundle": "between publisher.copy.packed and publisher.copy.done",
  "services/publisher/copy/sandbox-repository.ts#run": "between publisher.copy.packed and publisher.copy.done",
  "services/egress/open-egress.ts#openEgress": "wires the reports; one that comes again is known by its batch",
  "services/publisher/git/mirror.ts#openGit": "an empty git configuration, written anew at every start",
  "services/relay/open-relay.ts#openRelay":
    "wires the report that relay.report.sending and relay.report.sent are around",
  "services/relay/passes/passes.ts#openPasses": "wires writeState, which has its steps",
  "services/projector/refill.ts#addMissing": "a person's command, which may be run again: what is there stays as it is",
  "services/projector/rebuild.ts#replay": "a person's command in one transaction, not a service's work",
  "services/pistisd/commands/call.ts#shellArguments": "between pistisd.call.recorded and pistisd.call.spawned",
  "services/pistisd/files/edit.ts#fileEdit": "between pistisd.file.recorded and pistisd.file.written",
  "services/pistisd/files/operations.ts#keep":
    "called by atMostOnce, between pistisd.file.replaced and pistisd.file.kept",
  "services/pistisd/files/write.ts#fileWrite": "between pistisd.file.recorded and pistisd.file.written",
  "services/pistisd/state/reserve.ts#fill": "room without meaning; a part of it is made whole at the next start",
  "services/pistisd/state/state.ts#replaceFile": "keeps the epoch and the pass, whose callers have the steps",
  "services/pistisd/state/state.ts#openState": "wires what keeps epoch and pass; its first write says nothing new",
  "services/pistisd/native/system.ts#offerToOutOfMemory": "a setting of the process itself",
  "services/providers/local/cgroups.ts#delegate": "a setting of the kernel, made anew at every start",
  "services/providers/local/cgroups.ts#setLimit": "a setting of the kernel, before provider.guest.starting",
  "services/providers/local/guest-view.ts#writeGuestFiles": "written anew at every start",
  "services/providers/local/remove-tree.ts#removeTree": "after provider.folder.doomed; the sweep goes on with it",
  "services/providers/local/sandbox-folder.ts#sweepFolders":
    "removes what a death left, and is done anew at every start",
  "services/providers/local/sandbox-folder.ts#writeJson": "atomic; between provider.folder.made and provider.task.done",
  "shared/blobs/blobs.ts#write": "a file that nothing names until the append after it",
  "shared/database/write-batch.ts#writeBatch":
    "one transaction, between projector.batch.writing and projector.batch.written",
  "shared/ledger/handle-command.ts#handleCommand": "every append; the steps are around its callers",
  "shared/nats/setup.ts#ensureConsumer": "`pistis setup` alone, which may be run again",
  "shared/nats/work-queue.ts#next": "the next item of a queue is asked for; nothing is in hand",
  "shared/sandbox-link/relay-link.ts#linkOf": "wires the brain's calls, which have their steps",
  "shared/sandbox-link/operations/change.ts#writeFile": "called between brain.call.sending and brain.call.sent",
  "shared/service/health-file.ts#keepHealthFile": "tells a supervisor, anew all the time",
  "shared/nats/ledger/follow.ts#makeConsumer":
    "a consumer in memory for one reader; the server drops it when nobody pulls",
  "shared/nats/ledger/follow.ts#dropConsumer": "the same consumer's end",
  "shared/nats/ledger/scan.ts#withOneConsumer":
    "a consumer in memory for one reader; the server drops it when nobody pulls",
};

type Body = Readonly<{ id: string; text: string }>;

function sources(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((file) => join(folder, file))
    .filter((file) => file.endsWith(".ts") && !/\.(test|contract)\.ts$|\/testing\/|\/tests\//.test(file));
}

const textOf = (file: string) => readFileSync(join(ROOT, file), "utf8");

const START =
  /^(?:export )?(?:async )?function\*? (\w+)|^(?:export )?const (\w+) = .*=> \{$|^ {2}(?:async )?(#?\w+)\(.*(?:\{|\()$/;

/** Functions and methods of a formatted file: each begins at its own indentation and ends at a brace there. */
function bodiesOf(file: string): Body[] {
  const lines = textOf(file).split("\n");
  return lines.flatMap((line, at): Body[] => {
    const [, named, constant, method] = START.exec(line) ?? [];
    const name = named ?? constant ?? method;
    if (name === undefined) return [];
    const brace = method === undefined ? "}" : "  }";
    const end = lines.findIndex((later, index) => index > at && [brace, `${brace};`, `${brace},`].includes(later));
    return [{ id: `${file}#${name.replace("#", "")}`, text: lines.slice(at, end + 1).join("\n") }];
  });
}

describe("the steps between two effects", () => {
  it("are each one place in the code, and no other is there", () => {
    const uses = [...sources("services"), ...sources("shared")].flatMap((file) =>
      [...textOf(file).matchAll(/\bstep\("([^"]+)"\)/g)].map(([, name]) => name ?? ""),
    );
    expect(uses.sort()).to.deep.equal(stepNames().sort());
  });

  it("stand at every effect that a service awaits", () => {
    const without = [...sources("services"), ...sources("shared")]
      .filter((file) => !/^(services\/cli|shared\/embedded)\//.test(file))
      .flatMap(bodiesOf)
      .filter(({ text }) => EFFECT.test(text) && !/\bstep\("/.test(text))
      .map(({ id }) => id);
    expect(without.filter((id) => ALLOWED[id] === undefined)).to.deep.equal([]);
    expect(Object.keys(ALLOWED).filter((id) => !without.includes(id))).to.deep.equal([]);
  });
});
