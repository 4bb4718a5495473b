// An append to the ledger beside a bare JetStream publish of as many bytes, on one server that syncs every write.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ledgerSubject } from "#schemas/ledger/subjects.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import { newId } from "#shared/ids/ids.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { startTestNats } from "#shared/testing/nats.ts";
import { median, type Row, row, timed } from "./row.ts";

const APPENDS = 1_000;

export async function ledgerAppendBench(): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-bench-"));
  const server = await startTestNats({ shards: 8 });
  try {
    const nats = await server.connect("brain");
    const ledger = openLedger({ nats, writer: "brain", shards: server.shards, blobs: openBlobs(folder) });
    const jetstream = (await server.connect("setup")).jetstream();
    const session = newId("session");
    const bareSession = newId("session");
    const cause = { correlationId: session, causationId: null };
    let version = NEW_SESSION;
    let sequence = 0;
    const appends: number[] = [];
    const publishes: number[] = [];
    for (let index = 0; index < APPENDS; index++) {
      let bytes = new Uint8Array();
      appends.push(
        await timed(async () => {
          const event = {
            type: "ToolStarted" as const,
            data: { turnId: "trn_1", callId: newId("call"), tool: "bash", epoch: 1 },
          };
          const stored = await ledger.append(session, version, [event], cause);
          version = { sequence: stored.sequence, hash: stored.hash };
          bytes = new Uint8Array(stored.bytes);
        }),
      );
      publishes.push(
        await timed(async () => {
          const options = { msgID: newId("event"), expect: { lastSubjectSequence: sequence } };
          sequence = (await jetstream.publish(ledgerSubject(bareSession, server.shards), bytes, options)).seq;
        }),
      );
    }
    return [row("ledger append", "ms", { value: median(appends), baseline: median(publishes) }, { ratioAtMost: 1.2 })];
  } finally {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  }
}
