// How much a guest that floods the relay slows another session's commands. The hostile guest is a Docker container with half
// a processor, which it uses up all the time: in each even second by flooding, in each odd one by spinning without a word to
// the relay. So what is compared is what the relay lets through, not what the guest's processor time takes from everybody,
// and both kinds of seconds meet the same load.
//
// The relay is a process of its own, and so is the peer that the flooding guest's frames go to.
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { floods } from "../escape/breaches.ts";
import { type HostileSandbox, openHostileSandboxes } from "../escape/hostile-sandboxes.ts";
import { median, type Row, row, timed } from "./row.ts";
import { run } from "./sandbox-link.ts";

const ROUNDS = 5;
const CPU_CORES = 0.5;
const SPIN = "while (time < $end) { 1 for 1 .. 1000 }";
/** At the start of a second the one before it may not be over yet. */
const SETTLED_MS = 100;

type Times = Readonly<{ flooded: number[]; quiet: number[] }>;

export async function floodBench(): Promise<Row[]> {
  const sandboxes = await openHostileSandboxes({ apart: true, cpuCores: CPU_CORES });
  try {
    const link = await sandboxes.openBystander();
    for (let index = 0; index < 50; index++) await run(link, "true");
    const rows: Row[] = [];
    for (const { what, program } of floods) {
      const hostile = await sandboxes.open();
      await sandboxes.attach(hostile.ref);
      const { flooded, quiet } = await commandsDuring(link, hostile, program);
      const measured = { value: median(flooded), baseline: median(quiet) };
      rows.push(row(`flood: another session's command during ${what}`, "ms", measured, { ratioAtMost: 1.2 }));
    }
    return rows;
  } finally {
    await sandboxes.close();
  }
}

/** Times of commands in the other session while the program runs every other second. */
async function commandsDuring(link: SandboxLink, hostile: HostileSandbox, program: string): Promise<Times> {
  const times: Times = { flooded: [], quiet: [] };
  let over = false;
  const round = `{ my $end = time + 1; ${program} } { my $end = time + 1; ${SPIN} }`;
  const running = hostile.perl(`1 while time % 2; for (1 .. ${ROUNDS}) { ${round} } print "done"`).finally(() => {
    over = true;
  });
  while (!over) {
    const startedAt = Date.now();
    const took = await timed(() => run(link, "true"));
    const second = Math.floor(startedAt / 1_000);
    if (startedAt % 1_000 < SETTLED_MS || second !== Math.floor(Date.now() / 1_000)) continue;
    (second % 2 === 0 ? times.flooded : times.quiet).push(took);
  }
  await running;
  return times;
}
