import { z } from "zod";
import { type EventsOf, entriesOf } from "../entry.ts";
import { id, repositorySource } from "../parts.ts";

const entry = entriesOf("gateway");

export const delivery = z
  .enum(["steer", "queue"])
  .describe("steer: reaches the model at its next step; queue: starts a turn after the current one");

export const gatewayEvents = {
  SessionCreated: entry(
    "A person opened a session",
    z.strictObject({
      title: z.string().max(200),
      model: z.string().min(1).max(200).describe("Name of a model in pistis.json"),
      repository: repositorySource.optional(),
      provider: z.string().min(1).max(50).describe("Sandbox provider"),
    }),
  ),
  MessagePosted: entry(
    "A person wrote a message; it is stored and will reach the model",
    z.strictObject({
      messageId: id,
      text: z.string().min(1).max(1_000_000),
      delivery,
    }),
  ),
  MessageWithdrawn: entry("A queued message was taken back before the model saw it", z.strictObject({ messageId: id })),
  InterruptRequested: entry("A person pressed Stop during a turn", z.strictObject({ turnId: id })),
  SessionEndRequested: entry("A person ended the session", z.strictObject({})),
};

export type GatewayEvent = EventsOf<typeof gatewayEvents>;
