// What the probe of the network adds to the start of a sandbox: from "it joined" to "it may run commands". The probe is a
// process of its own, which can be killed whatever a hostile guest lets it read or reach; so the start of its program is
// part of the price, and the aim is for what comes on top of that: the link, the attempts and the two appends.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { EventType } from "#schemas/ledger/event.ts";
import { type FollowedSession, openTestInstall, openTestSession } from "../testing/running-install.ts";
import { PISTISD_FOLDER } from "../testing/sandboxes.ts";
import { median, type Row, row, timed } from "./row.ts";

const run = promisify(execFile);
const SANDBOXES = 10;

export async function networkProbeBench(): Promise<Row[]> {
  const install = await openTestInstall();
  try {
    const added: number[] = [];
    const bare: number[] = [];
    for (let index = 0; index < SANDBOXES; index++) {
      const session = await openTestSession(install.server, { message: { text: "$ true" } });
      await session.event("ToolDone");
      added.push(arrivalOf(session, "EgressProbed") - arrivalOf(session, "SandboxJoined"));
      await session.close();
      bare.push(await timed(() => run(join(PISTISD_FOLDER, "pistisd"), ["--version"])));
    }
    const start = median(bare);
    const name = "network probe of a local sandbox, beyond the start of its program (baseline)";
    return [row(name, "ms", { value: median(added) - start, baseline: start }, { atMost: 30 })];
  } finally {
    await install.close();
  }
}

function arrivalOf({ messages, arrivals }: FollowedSession, type: EventType): number {
  const message = messages.find(({ events }) => events.some((event) => event.type === type));
  return arrivals.get(message?.sequence ?? -1) ?? Number.NaN;
}
