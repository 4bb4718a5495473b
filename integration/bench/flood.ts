// How much a guest that floods the relay slows another session's commands. The hostile guest is a Docker container with half
// a processor, which it uses up in both halves of each round: once by flooding, once by spinning without a word to the relay.
// So what is compared is what the relay lets through, not what the guest's processor time takes from everybody.
//
// The relay is a process of its own, and so is the peer that the flooding guest's frames go to.
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { floods } from "../escape/breaches.ts";
import { type HostileSandbox, openHostileSandboxes } from "../escape/hostile-sandboxes.ts";
import { median, type Row, row, timed } from "./row.ts";
import { run } from "./sandbox-link.ts";

const ROUNDS = 3;
const SECONDS = 2;
const CPU_CORES = 0.5;
const SPIN = "while (time < $end) { 1 for 1 .. 1000 }";
/** The guest's own program has to start before what is measured means anything. */
const STARTED_MS = 300;

export async function floodBench(): Promise<Row[]> {
  const sandboxes = await openHostileSandboxes({ apart: true, cpuCores: CPU_CORES });
  try {
    const link = await sandboxes.openBystander();
    for (let index = 0; index < 50; index++) await run(link, "true");
    const rows: Row[] = [];
    for (const { what, program } of floods) {
      const hostile = await sandboxes.open();
      await sandboxes.attach(hostile.ref);
      const flooded: number[] = [];
      const quiet: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        flooded.push(...(await commandsDuring(link, hostile, program)));
        quiet.push(...(await commandsDuring(link, hostile, SPIN)));
      }
      const measured = { value: median(flooded), baseline: median(quiet) };
      rows.push(row(`flood: another session's command during ${what}`, "ms", measured, { ratioAtMost: 1.2 }));
    }
    return rows;
  } finally {
    await sandboxes.close();
  }
}

/** Times of commands in the other session while the program runs. */
async function commandsDuring(link: SandboxLink, hostile: HostileSandbox, program: string): Promise<number[]> {
  const times: number[] = [];
  let over = false;
  const text = `my $end = time + ${SECONDS}; ${program}; print "done"`;
  const running = hostile.perl(text).finally(() => {
    over = true;
  });
  const startedAt = performance.now();
  while (!over) {
    const took = await timed(() => run(link, "true"));
    if (performance.now() - startedAt > STARTED_MS) times.push(took);
  }
  await running;
  return times;
}
