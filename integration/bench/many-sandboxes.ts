// Fifty sandboxes after a restart of the relay, and a hundred sessions that all have a turn at once.
import { openTestInstall, openTestSession } from "../testing/running-install.ts";
import { openSandboxes } from "../testing/sandboxes.ts";
import { bareSpawn } from "./bare.ts";
import { median, type Row, row, timed } from "./row.ts";

const SANDBOXES = 50;
const SESSIONS = 100;
const COMMANDS = 5;
const READY_MS = 60_000;

export async function reattachBench(): Promise<Row[]> {
  const sandboxes = await openSandboxes();
  try {
    const links = [];
    for (let index = 0; index < SANDBOXES; index++) links.push((await sandboxes.open()).link);
    const restartMs = await timed(() => sandboxes.restartRelay());
    const waits = await Promise.all(links.map((link) => timed(() => link.ready(READY_MS))));
    return [
      row(`relay restart, ${SANDBOXES} sandboxes: the relay is up`, "ms", { value: restartMs }),
      row("relay restart: re-attached, median", "ms", { value: median(waits) }),
      row("relay restart: re-attached, the last one", "ms", { value: Math.max(...waits) }),
    ];
  } finally {
    await sandboxes.close();
  }
}

export async function manySessionsBench(): Promise<Row[]> {
  const install = await openTestInstall({ sandboxes: { memoryMiB: 256, processesMax: 64, startMs: 300_000 } });
  try {
    const steps = Array.from({ length: COMMANDS }, (_, index) => `$ echo ${index}`).join("\n");
    const before = process.memoryUsage().rss;
    const took = await timed(async () => {
      const sessions = await Promise.all(
        Array.from({ length: SESSIONS }, () => openTestSession(install.server, { message: { text: steps } })),
      );
      await Promise.all(sessions.map((session) => session.event("TurnEnded")));
      const done = sessions.map((session) => session.seen("ToolDone").length);
      if (done.some((count) => count !== COMMANDS)) throw new Error(`Some sessions have no result: ${done}`);
      await Promise.all(sessions.map((session) => session.close()));
    });
    const bare = await timed(() =>
      Promise.all(
        Array.from({ length: SESSIONS }, async () => {
          for (let index = 0; index < COMMANDS; index++) await bareSpawn(`echo ${index}`);
        }),
      ),
    );
    const grown = (process.memoryUsage().rss - before) / 1024 / 1024;
    return [
      row(`${SESSIONS} sessions at once, ${COMMANDS} commands each, sandboxes made`, "ms", {
        value: took,
        baseline: bare,
      }),
      row(`${SESSIONS} sessions at once: memory of the server and its client`, "MiB", { value: grown }),
    ];
  } finally {
    await install.close();
  }
}
