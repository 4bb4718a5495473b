// Docker sandboxes beside the same done by the `docker` command, on the same engine in the same run, with the same limits.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { CallNotRun, type SandboxLink } from "#shared/sandbox-link/link.ts";
import { openSandboxes } from "../testing/sandboxes.ts";
import { median, type Row, row, timed } from "./row.ts";
import { run } from "./sandbox-link.ts";

const execute = promisify(execFile);

const IMAGE = "debian:bookworm-slim";
const ROUNDS = 7;
const ROUND_TRIPS = 30;
const SANDBOXES = 60;
const READY_MS = 120_000;
const TRIES_MAX = 10;
const LIMITS = ["--network", "none", "--memory", "2g", "--cpus", "2", "--pids-limit", "256", "--cap-drop", "ALL"];

/** Times of one kind: ours and the bare one, taken in turn so that both meet the same load. */
type Times = { ours: number[]; bare: number[] };

type Kind = "create" | "pause" | "resume" | "resumed" | "restart" | "command";
type AllTimes = Readonly<Record<Kind, Times>>;

export async function dockerBench(): Promise<Row[]> {
  const sandboxes = await openSandboxes({ image: IMAGE });
  const none = (): Times => ({ ours: [], bare: [] });
  const times: AllTimes = {
    create: none(),
    pause: none(),
    resume: none(),
    resumed: none(),
    restart: none(),
    command: none(),
  };
  try {
    await sandboxes.open();
    for (let index = 0; index < ROUNDS; index++) {
      await oursOnce(sandboxes, times);
      await bareOnce(times);
    }
  } finally {
    await sandboxes.close();
  }
  const of = (kind: Kind) => ({ value: median(times[kind].ours), baseline: median(times[kind].bare) });
  return [
    row("docker: create → first command, beside run → exec", "ms", of("create"), { ratioAtMost: 1.15 }),
    row("docker: pause", "ms", of("pause")),
    row("docker: resume, beside unpause", "ms", of("resume")),
    row("docker: resume → command, beside unpause → exec", "ms", of("resumed")),
    row("docker: restart → command, beside start → exec", "ms", of("restart")),
    row("docker: command round trip, beside exec", "ms", of("command"), { ratioAtMost: 0.1 }),
  ];
}

async function oursOnce(sandboxes: Awaited<ReturnType<typeof openSandboxes>>, times: AllTimes): Promise<void> {
  const { provider } = sandboxes;
  const startedAt = performance.now();
  const { ref, link } = await sandboxes.open();
  await run(link, "true");
  times.create.ours.push(performance.now() - startedAt);
  for (let index = 0; index < ROUND_TRIPS; index++) times.command.ours.push(await timed(() => run(link, "true")));
  times.pause.ours.push(await timed(() => provider.pause(ref)));
  const resume = await timed(() => provider.resume(ref));
  times.resume.ours.push(resume);
  times.resumed.ours.push(resume + (await timed(() => run(link, "true"))));
  await provider.stop(ref);
  times.restart.ours.push(
    await timed(async () => {
      await sandboxes.restart(ref);
      await link.ready(READY_MS);
      await run(link, "true");
    }),
  );
  await provider.destroy(ref);
}

async function bareOnce(times: AllTimes): Promise<void> {
  const name = `pistis-bench-${randomBytes(4).toString("hex")}`;
  const exec = () => docker("exec", name, "true");
  try {
    times.create.bare.push(
      await timed(async () => {
        await docker("run", "-d", "--name", name, ...LIMITS, IMAGE, "sleep", "1000");
        await exec();
      }),
    );
    for (let index = 0; index < ROUND_TRIPS / 5; index++) times.command.bare.push(await timed(exec));
    times.pause.bare.push(await timed(() => docker("pause", name)));
    const resume = await timed(() => docker("unpause", name));
    times.resume.bare.push(resume);
    times.resumed.bare.push(resume + (await timed(exec)));
    await docker("stop", "-t", "0", name);
    times.restart.bare.push(
      await timed(async () => {
        await docker("start", name);
        await exec();
      }),
    );
  } finally {
    await docker("rm", "-f", name);
  }
}

async function docker(...args: string[]): Promise<void> {
  await execute("docker", args);
}

/** Sixty small ones at once: made, used, paused, resumed, used again and destroyed. None may be left. */
export async function dockerSixtyBench(): Promise<Row[]> {
  const sandboxes = await openSandboxes({
    image: IMAGE,
    spec: { memoryMiB: 256, processesMax: 64, cpuCores: 0.5 },
    joinMs: READY_MS,
  });
  const { provider } = sandboxes;
  try {
    let opened: Awaited<ReturnType<typeof sandboxes.open>>[] = [];
    const create = await timed(async () => {
      opened = await Promise.all(Array.from({ length: SANDBOXES }, () => sandboxes.open()));
    });
    const each = (work: (one: (typeof opened)[number]) => Promise<unknown>) =>
      timed(() => Promise.all(opened.map(work)));
    const runIn = ({ link }: (typeof opened)[number], command: string) => runUntilSeen(link, command);
    const use = await each((one) => runIn(one, "echo used > /workspace/file"));
    const pause = await each(({ ref }) => provider.pause(ref));
    const resume = await each(({ ref }) => provider.resume(ref));
    const again = await each((one) => runIn(one, "test -s /workspace/file"));
    const destroy = await each(({ ref }) => provider.destroy(ref));
    const left = (await provider.list()).length;
    const of = (name: string, value: number) => row(`docker, ${SANDBOXES} at once: ${name}`, "ms", { value });
    return [
      of("created and joined", create),
      of("a command in each", use),
      of("paused", pause),
      of("resumed", resume),
      of("a command in each after it", again),
      of("destroyed", destroy),
      row(`docker, ${SANDBOXES} at once: left behind`, "sandboxes", { value: left }, { atMost: 0 }),
    ];
  } finally {
    await sandboxes.close();
  }
}

/** A sandbox that was paused for long has lost its connection: a call from before it came back is barred, and did not run. */
async function runUntilSeen(link: SandboxLink, command: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    await link.ready(READY_MS);
    const barred = await run(link, command).then(() => undefined, callNotRun);
    if (barred === undefined) return;
    if (tries === TRIES_MAX) throw barred;
  }
}

function callNotRun(error: unknown): CallNotRun {
  if (error instanceof CallNotRun) return error;
  throw error;
}
