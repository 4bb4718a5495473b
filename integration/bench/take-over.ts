// How long a turn is without an owner when its brain dies, or hangs, in the middle of a command: several brains as
// processes of their own, beside a bare lease in a KV bucket of the same lifetime whose holder goes away.
import { setTimeout as delay } from "node:timers/promises";
import { type KV, NatsError } from "nats";
import { interruptTurn } from "#services/cli/client/api.ts";
import { LEASE_TTL_MS_DEFAULT } from "#shared/nats/setup.ts";
import { startTestNats } from "#shared/testing/nats.ts";
import { openTestSession } from "../testing/running-install.ts";
import { openServiceProcesses, type ServiceProcesses } from "../testing/service-processes.ts";
import { median, type Row, row } from "./row.ts";

const BRAINS = 3;
const ROUNDS = 10;
const BUCKET = "BARE_LEASES";
const POLL_MS = 20;
const RENEWALS_PER_TTL = 3;

type BrainName = `brain-${number}`;
type Fall = (brain: BrainName) => Promise<void>;

export async function takeOverBench(): Promise<Row[]> {
  const bare = await bareTakeOvers();
  const install = await openServiceProcesses({ brains: BRAINS });
  try {
    await install.startAll();
    const killed = await takeOvers(install, async (brain) => void (await install.kill(brain)));
    const hung = await takeOvers(install, async (brain) => install.pause(brain));
    const baseline = median(bare);
    return [
      row("take-over", "ms", { value: median(killed), baseline }, { atMost: 5_000 }),
      row("take-over, the slowest of the run", "ms", { value: Math.max(...killed), baseline }, { atMost: 5_000 }),
      row("take-over from a brain that hangs", "ms", { value: median(hung), baseline }, { atMost: 5_000 }),
    ];
  } finally {
    await install.close();
  }
}

/** From the moment in which the turn's brain fell until a client saw TurnTakenOver. */
async function takeOvers(install: ServiceProcesses, fall: Fall): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) times.push(await oneTakeOver(install, round, fall));
  return times;
}

async function oneTakeOver(install: ServiceProcesses, round: number, fall: Fall): Promise<number> {
  const session = await openTestSession(install.server);
  await session.post("$ echo begun; sleep 1000");
  await session.liveOutput((output) => output.includes("begun"));
  await delay(withinRenewal(round));
  const brain = nameOf(session.seen("TurnStarted")[0]?.brain);
  const from = performance.now();
  await fall(brain);
  await session.event("TurnTakenOver");
  const took = performance.now() - from;
  await interruptTurn(install.server, session.id);
  await session.event("TurnEnded");
  await session.close();
  if (install.state(brain) === "paused") await install.kill(brain);
  await install.start(brain);
  return took;
}

/** Spreads the ends over the time between two renewals: the time left on the lease is a part of what is measured. */
function withinRenewal(round: number): number {
  return ((LEASE_TTL_MS_DEFAULT / RENEWALS_PER_TTL) * round) / ROUNDS;
}

function nameOf(brain = ""): BrainName {
  const [, number] = /^brain-(\d+)-/.exec(brain) ?? [];
  if (number === undefined) throw new Error(`The turn is of no brain of this install: ${brain}`);
  return `brain-${Number(number)}`;
}

async function bareTakeOvers(): Promise<number[]> {
  const server = await startTestNats();
  try {
    const nats = await server.connect("setup");
    const times: number[] = [];
    const bucket = await nats.jetstream().views.kv(BUCKET, { ttl: LEASE_TTL_MS_DEFAULT });
    for (let round = 0; round < ROUNDS; round++) times.push(await bareTakeOver(bucket, round));
    return times;
  } finally {
    await server.close();
  }
}

/** A key that is renewed once, then never again, while someone else tries to create it. */
async function bareTakeOver(bucket: KV, round: number): Promise<number> {
  const key = `session-${round}`;
  const revision = await bucket.create(key, "one");
  await bucket.update(key, "one", revision);
  await delay(withinRenewal(round));
  const from = performance.now();
  while (!(await isCreated(bucket, key))) await delay(POLL_MS);
  return performance.now() - from;
}

async function isCreated(bucket: KV, key: string): Promise<boolean> {
  try {
    await bucket.create(key, "another");
    return true;
  } catch (error) {
    if (error instanceof NatsError && error.api_error !== undefined) return false;
    throw error;
  }
}
