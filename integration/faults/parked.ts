// What was given up while faults happened, from the stream PARKED of both accounts. A work queue says in headers why, the
// ledger's feed in the item itself.
import type { NatsConnection } from "nats";
import { z } from "zod";
import { PARKED_STREAM } from "#schemas/ledger/subjects.ts";
import { openSecrets } from "#services/cli/state/secrets.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { connectNats } from "#shared/nats/connection.ts";
import type { ServiceProcesses } from "../testing/service-processes.ts";
import type { Violation } from "./violation.ts";

export type ParkedItem = Readonly<{ subject: string; code: string; reason: string }>;

const feedItem = z.looseObject({ code: z.string(), reason: z.string() });

export async function readParked({ natsUrl, statePath, folder }: ServiceProcesses): Promise<ParkedItem[]> {
  const { secrets } = await openSecrets(stateFolder(statePath, {}, folder));
  const read = (["setup", "edge-setup"] as const).map(async (user) => {
    const nats = await connectNats({ url: natsUrl, user, seed: secrets.natsKeys[user].seed, name: "fault injector" });
    try {
      return await parkedIn(nats);
    } finally {
      await nats.close();
    }
  });
  return (await Promise.all(read)).flat();
}

async function parkedIn(nats: NatsConnection): Promise<ParkedItem[]> {
  const { streams } = await nats.jetstreamManager({ checkAPI: false });
  const { state } = await streams.info(PARKED_STREAM, { deleted_details: true });
  const sequences = Array.from(
    { length: state.messages === 0 ? 0 : state.last_seq - state.first_seq + 1 },
    (_, index) => {
      return state.first_seq + index;
    },
  );
  const there = sequences.filter((seq) => !(state.deleted ?? []).includes(seq));
  return Promise.all(
    there.map(async (seq) => {
      const { subject, header, data } = await streams.getMessage(PARKED_STREAM, { seq });
      if (header.has("Pistis-Code")) {
        return { subject, code: header.get("Pistis-Code"), reason: header.get("Pistis-Reason") };
      }
      const { code, reason } = feedItem.parse(JSON.parse(new TextDecoder().decode(data)));
      return { subject, code, reason };
    }),
  );
}

/** Work that took its worker down every time is given up, which faults can bring about. Nothing else is. */
const OF_FAULTS = new Set(["queue_attempts"]);

export function wronglyParked(items: readonly ParkedItem[]): Violation[] {
  return items
    .filter(({ code }) => !OF_FAULTS.has(code))
    .map(({ subject, code, reason }) => ({ of: "rest", session: "", text: `${subject} has ${code}: ${reason}` }));
}
