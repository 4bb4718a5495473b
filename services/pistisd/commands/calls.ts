// The commands of this sandbox: at most once each, findable while they or what they left behind go on, and
// their output kept until the space is needed.
import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type AnswerOf, type ExecOutcome, type RequestOf, WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import {
  COMMANDS_MAX,
  FINISHED_LISTED_MAX,
  LISTED_COMMAND_CHARACTERS_MAX,
  OUTPUT_END_MS_MAX,
  OUTPUT_TOTAL_BYTES,
} from "../limits.ts";
import type { System } from "../native/system.ts";
import type { CallRecords, Finished } from "../state/call-records.ts";
import { type Call, notStarted, openOutputDirectory, startCall } from "./call.ts";
import { mayBeSet } from "./environment.ts";
import { signalFamily } from "./killing.ts";
import { dropOldOutput } from "./old-output.ts";
import { endLeftovers, listProcesses, membersOf, type Process } from "./processes.ts";
import { isDiskFull, Spool } from "./spool.ts";

type Listed = {
  call: Call;
  answer: Promise<Finished>;
  outcome: ExecOutcome | undefined;
  /** The shell ended and left processes behind. */
  leftRunning: boolean;
  over: boolean;
};

/** `finished` is what the caller waits for: the end of the shell, or at once in the background. */
export type Started = Readonly<{ finished: Promise<Finished>; spool: Spool; outputEnds: Promise<unknown> }>;

export type CallsContext = Readonly<{
  system: System;
  records: CallRecords;
  stateDirectory: string;
  instance: string;
  shell: string;
  environment: Readonly<Record<string, string>>;
}>;

export class Calls {
  readonly #context: CallsContext;
  readonly #outputDirectory: string;
  readonly #listed = new Map<string, Listed>();

  constructor(context: CallsContext) {
    this.#context = context;
    this.#outputDirectory = openOutputDirectory(context.stateDirectory);
    endLeftovers(`${context.instance}.`);
  }

  /** Throws Refusal `call_seen`, `call_barred` or `too_many_commands`; a spawn that fails is a result. */
  start(request: RequestOf<"exec">, cwd: string): Started {
    if (this.#isFull()) throw tooManyCommands();
    const { callId, command } = request;
    step("pistisd.call.beginning");
    this.#context.records.begin(callId, { is: "command", command, at: new Date().toISOString() });
    step("pistisd.call.recorded");
    const spool = new Spool(this.#outputPath(callId));
    try {
      return this.#watch(startCall(this.#context.system, { ...this.#commandOf(request), cwd }, spool));
    } catch (error) {
      const finished = notStarted(error);
      this.#keepResult(callId, finished);
      return { finished: Promise.resolve(finished), spool, outputEnds: Promise.resolve() };
    }
  }

  /** A command of this start of the daemon, whose answer is not given yet or that goes on in the background. */
  find(callId: string): Started | undefined {
    const listed = this.#listed.get(callId);
    return listed && startedOf(listed);
  }

  async stop(callId: string, graceMs: number): Promise<boolean> {
    const call = this.#known(callId);
    if (call === undefined || !isRunning(call)) return false;
    await call.call.stop(graceMs);
    await Promise.race([call.call.over, delay(OUTPUT_END_MS_MAX)]);
    return true;
  }

  signal(callId: string, signal: NodeJS.Signals): boolean {
    const call = this.#known(callId);
    return call !== undefined && signalFamily(call.call.family, signal);
  }

  list(): AnswerOf<"processes"> {
    const all = [...this.#listed.values()];
    const running = new Set(runningOf(all));
    const processes = all.map((listed) => ({
      callId: listed.call.callId,
      command: startOf(listed.call.command),
      running: running.has(listed),
      outputBytes: listed.call.spool.totalBytes,
      startedAt: listed.call.startedAt.toISOString(),
      ...(listed.outcome === undefined ? {} : { outcome: listed.outcome }),
    }));
    return { processes };
  }

  /** The output of a command, running or not. Throws Refusal `call_unknown`. */
  output(callId: string): Spool {
    const listed = this.#listed.get(callId);
    if (listed !== undefined) return listed.call.spool;
    const record = this.#context.records.look(callId);
    if (record.status === "never-seen" || record.status === "barred") throw unknownCall(callId);
    const path = this.#outputPath(callId);
    const written =
      record.status === "ended" && record.ending.is === "finished" ? record.ending.outputBytes : undefined;
    return Spool.reopen(path, written ?? statSync(path, { throwIfNoEntry: false })?.size ?? 0);
  }

  async close(): Promise<void> {
    const running = runningOf([...this.#listed.values()]);
    await Promise.all(running.map(({ call }) => call.stop(0)));
  }

  #commandOf(request: RequestOf<"exec">) {
    const { shell, environment, instance } = this.#context;
    const added = Object.entries(request.env ?? {}).filter(([name]) => mayBeSet(name));
    return {
      callId: request.callId,
      mark: `${instance}.${request.callId}`,
      isAlone: (since: number) => this.#isAlone(request.callId, since),
      command: request.command,
      shell,
      environment: { ...environment, ...Object.fromEntries(added) },
      timeoutMs: request.timeoutMs,
      background: request.background,
    };
  }

  #watch(call: Call): Started {
    step("pistisd.call.spawned");
    const shellEnded = call.shellEnded.then((ended) => {
      listed.outcome = ended.outcome;
      listed.leftRunning = ended.leftRunning;
      if (!call.background) this.#keepResult(call.callId, ended);
      return ended;
    });
    const answer = call.background ? Promise.resolve(backgroundResult(call)) : shellEnded;
    const listed: Listed = { call, answer, outcome: undefined, leftRunning: false, over: false };
    this.#listed.set(call.callId, listed);
    void Promise.all([call.shellEnded, call.over]).then(([ended]) => this.#callIsOver(listed, ended));
    return startedOf(listed);
  }

  /** On a full disk the caller still gets the result; only after a crash nobody can tell it again. */
  #keepResult(callId: string, finished: Finished): void {
    step("pistisd.call.ending");
    try {
      this.#context.records.end(callId, { is: "finished", ...finished });
      step("pistisd.call.kept");
    } catch (error) {
      if (!isDiskFull(error)) throw error;
    }
  }

  /** Of a background command the end is kept: a restart before that ends what is there, and its call is lost (I5). */
  #callIsOver(listed: Listed, ended: Finished): void {
    const { call } = listed;
    listed.over = true;
    const whole = { ...ended, outputBytes: call.spool.totalBytes };
    call.spool.close();
    this.#forgetOldest();
    this.#dropOldOutput(call.callId);
    if (!call.background) return;
    listed.answer = Promise.resolve(whole);
    try {
      this.#keepResult(call.callId, whole);
    } catch {
      // Nobody waits for it. A command can take the records away: then its call is told as lost after a restart.
    }
  }

  /** Whether no other command that is still there had started before that moment. */
  #isAlone(callId: string, startTicks: number): boolean {
    return this.#running().every(({ call }) => call.callId === callId || call.family.startTicks > startTicks);
  }

  #known(callId: string): Listed | undefined {
    const listed = this.#listed.get(callId);
    if (listed !== undefined) return listed;
    if (this.#context.records.look(callId).status === "never-seen") throw unknownCall(callId);
    return undefined;
  }

  /** Which processes there are is looked at only when there could be too many commands. */
  #isFull(): boolean {
    const perhaps = [...this.#listed.values()].filter(({ over, leftRunning }) => !over || leftRunning);
    return perhaps.length >= COMMANDS_MAX && runningOf(perhaps).length >= COMMANDS_MAX;
  }

  #running(): Listed[] {
    return [...this.#listed.values()].filter((listed) => !listed.over);
  }

  #outputPath(callId: string): string {
    return join(this.#outputDirectory, callId);
  }

  /** What a command left behind can be stopped only as long as the command is known. */
  #forgetOldest(): void {
    const finished = [...this.#listed.values()].filter((listed) => listed.over);
    const oldest = finished.slice(0, Math.max(0, finished.length - FINISHED_LISTED_MAX));
    const reachable = new Set(runningOf(oldest));
    for (const listed of oldest) if (!reachable.has(listed)) this.#listed.delete(listed.call.callId);
  }

  #dropOldOutput(ended: string): void {
    const running = new Set(this.#running().map(({ call }) => call.callId));
    dropOldOutput(this.#outputDirectory, { running, ended, totalBytesMax: OUTPUT_TOTAL_BYTES });
  }
}

function startOf(command: string): string {
  if (command.length <= LISTED_COMMAND_CHARACTERS_MAX) return command;
  return `${command.slice(0, LISTED_COMMAND_CHARACTERS_MAX - 1)}…`;
}

function startedOf({ call, answer }: Listed): Started {
  return { finished: answer, spool: call.spool, outputEnds: call.background ? call.over : call.shellEnded };
}

function backgroundResult(call: Call): Finished {
  const durationMs = Date.now() - call.startedAt.getTime();
  return { outcome: { status: "background" }, outputBytes: call.spool.totalBytes, durationMs, leftRunning: true };
}

function isRunning({ call, leftRunning, over }: Listed, all?: readonly Process[]): boolean {
  return !over || (leftRunning && membersOf(call.family, all).length > 0);
}

/** Those of which something runs. All processes are listed once, and only if that is needed. */
function runningOf(listed: readonly Listed[]): Listed[] {
  const all = listed.some(({ over, leftRunning }) => over && leftRunning) ? listProcesses() : [];
  return listed.filter((each) => isRunning(each, all));
}

function tooManyCommands(): Refusal {
  return new Refusal("too_many_commands", `${COMMANDS_MAX} commands are running or left processes behind`, {
    next: "Stop background commands that are not needed any more",
  });
}

function unknownCall(callId: string): Refusal {
  return new Refusal(WireCode.callUnknown, `${callId} never ran in this sandbox`);
}
