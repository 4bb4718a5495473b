// How long a new session waits for its first sandbox: with one of the warm pool, beside one that is made for it. Two
// installs, in turns, so that the refill of the pool is over before anything is measured.
import { startDevProcess } from "../testing/dev-process.ts";
import { isWaiting, type PoolWatch, watchPool } from "../testing/pool-watch.ts";
import {
  type ConfigFile,
  type FollowedSession,
  openTestSession,
  type TestInstall,
} from "../testing/running-install.ts";
import { median, type Row, row } from "./row.ts";

const ROUNDS = 10;
const SANDBOXES = { provider: "local" as const, memoryMiB: 512, processesMax: 64 };
const CLOCK = "date +%s%N";

type Waited = Readonly<{ sandboxMs: number; commandMs: number }>;
type Dev = Pick<TestInstall, "server" | "close">;

export async function warmPoolBench(): Promise<Row[]> {
  const open = (sandboxes: ConfigFile["sandboxes"]) => startDevProcess({ sandboxes: { ...SANDBOXES, ...sandboxes } });
  const warm = await open({ warm: 1 });
  const fresh = await open({});
  const pool = watchPool(warm.server);
  try {
    const waits = { warm: [] as Waited[], fresh: [] as Waited[] };
    for (let round = 0; round < ROUNDS; round++) {
      waits.warm.push(await warmSession(warm, pool));
      waits.fresh.push(await newSession(fresh, "sbx_0"));
    }
    const [mine, bare] = [middles(waits.warm), middles(waits.fresh)];
    return [
      row(
        "warm pool: SandboxNeeded → SandboxJoined, beside a sandbox made for it",
        "ms",
        { value: mine.sandboxMs, baseline: bare.sandboxMs },
        { atMost: 50 },
      ),
      row("warm pool: the same, slowest", "ms", { value: Math.max(...waits.warm.map(({ sandboxMs }) => sandboxMs)) }),
      row("warm pool: a new session's message → first command", "ms", {
        value: mine.commandMs,
        baseline: bare.commandMs,
      }),
    ];
  } finally {
    await pool.close();
    await fresh.close();
    await warm.close();
  }
}

async function warmSession(install: Dev, pool: PoolWatch): Promise<Waited> {
  await pool.until((members) => members.some(isWaiting));
  return newSession(install, "sbx_pool");
}

async function newSession({ server }: Dev, idStart: string): Promise<Waited> {
  const session = await openTestSession(server);
  const posted = performance.timeOrigin + performance.now();
  await session.post(`$ ${CLOCK}`);
  await session.event("TurnEnded");
  const { sandboxId } = await session.event("SandboxJoined");
  if (!sandboxId.startsWith(idStart)) throw new Error(`The sandbox is ${sandboxId}, not ${idStart}…`);
  const [done] = session.seen("ToolDone");
  const sandboxMs = arrivalOf(session, "SandboxJoined") - arrivalOf(session, "SandboxNeeded");
  const commandMs = Number.parseInt(done?.text ?? "", 10) / 1e6 - posted;
  await session.end();
  await session.event("SandboxDestroyed");
  await session.close();
  return { sandboxMs, commandMs };
}

function arrivalOf({ messages, arrivals }: FollowedSession, type: string): number {
  const message = messages.find(({ events }) => events.some((event) => event.type === type));
  const at = message && arrivals.get(message.sequence);
  if (at === undefined) throw new Error(`The session has no ${type}`);
  return at;
}

function middles(waits: readonly Waited[]): Waited {
  return {
    sandboxMs: median(waits.map(({ sandboxMs }) => sandboxMs)),
    commandMs: median(waits.map(({ commandMs }) => commandMs)),
  };
}
