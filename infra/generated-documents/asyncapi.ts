// The AsyncAPI document of what goes over NATS: the ledger's events, live traffic, tasks and reports.
import { z } from "zod";
import { envelope } from "#schemas/ledger/envelope.ts";
import { catalogue } from "#schemas/ledger/event.ts";
import { liveMessage } from "#schemas/live/live.ts";
import { providerTask, report } from "#schemas/provider/task.ts";

type Json = { [key: string]: unknown };

export function asyncapiDocument(version: string): object {
  return {
    asyncapi: "3.0.0",
    info: {
      title: "Pistis events",
      version,
      description: "CORE carries the ledger and live traffic; EDGE carries tasks and reports, and is not trusted.",
      license: { name: "Apache-2.0" },
    },
    defaultContentType: "application/json",
    channels: channels(),
    operations: operations(),
    components: { messages: { ...eventMessages(), ...otherMessages() } },
  };
}

function channels(): Json {
  const session = { description: "The session's id, or `install`" };
  return {
    ledger: channel("ledger.{shard}.{session}", "One message per append; its events by name", {
      parameters: { shard: { description: "FNV-1a of the session's id modulo ledger.shards" }, session },
      messages: ["LedgerEnvelope", ...Object.keys(catalogue)],
    }),
    live: channel("live.{session}.{kind}", "Core NATS: need not last", {
      parameters: { session, kind: { description: "Kind of the live message" } },
      messages: ["LiveMessage"],
    }),
    tasks: channel("tasks.{provider}", "EDGE, work queue: what a provider has to do", {
      parameters: { provider: { description: "Name of the provider" } },
      messages: ["ProviderTask"],
    }),
    reports: channel("reports.{reporter}", "EDGE, work queue: what providers and the relay saw, not yet checked", {
      parameters: { reporter: { description: "provider-<name> or relay" } },
      messages: ["Report"],
    }),
  };
}

function channel(
  address: string,
  description: string,
  { parameters, messages }: { parameters: Json; messages: string[] },
): Json {
  return { address, description, parameters, messages: refsTo("#/components/messages", messages) };
}

/** Who writes what, as seen from the writer. */
function operations(): Json {
  const writers = Map.groupBy(Object.entries(catalogue), ([, { writer }]) => writer);
  const ledger = [...writers].map(([writer, entries]) => {
    const messages = entries.map(([type]) => ({ $ref: `#/channels/ledger/messages/${type}` }));
    const summary = `What ${writer}, and nobody else, writes into the ledger`;
    return [`${writer}Writes`, { action: "send", channel: { $ref: "#/channels/ledger" }, summary, messages }] as const;
  });
  return {
    ...Object.fromEntries(ledger),
    brainShows: { action: "send", channel: { $ref: "#/channels/live" } },
    schedulerAsks: { action: "send", channel: { $ref: "#/channels/tasks" } },
    edgeReports: { action: "send", channel: { $ref: "#/channels/reports" } },
  };
}

function eventMessages(): Json {
  return Object.fromEntries(
    Object.entries(catalogue).map(([type, { schema, summary, version, writer }]) => {
      const event = z.strictObject({ type: z.literal(type), version: z.literal(version), data: schema });
      return [type, { ...message(type, summary, event), tags: [{ name: writer }] }];
    }),
  );
}

function otherMessages(): Json {
  return {
    LedgerEnvelope: message("LedgerEnvelope", "Every ledger message: its events, or a blob that holds them", envelope),
    LiveMessage: message("LiveMessage", "Token deltas, output, progress", liveMessage),
    ProviderTask: message("ProviderTask", "What the scheduler asks of a provider", providerTask),
    Report: message("Report", "What a provider or the relay saw; checked before it becomes a fact", report),
  };
}

function message(name: string, summary: string, schema: z.ZodType): Json {
  const schemaFormat = "application/schema+json;version=draft-2020-12";
  const text = JSON.stringify(z.toJSONSchema(schema));
  // References are relative to this document, not to the schema that stands in it.
  const rooted = text.replaceAll('"#/$defs/', `"#/components/messages/${name}/payload/schema/$defs/`);
  return { name, summary, payload: { schemaFormat, schema: JSON.parse(rooted) } };
}

function refsTo(where: string, names: string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `${where}/${name}` }]));
}
