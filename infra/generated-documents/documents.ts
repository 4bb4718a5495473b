// Every document that is made from the schemas, by its file under schemas/generated/.
import { z } from "zod";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { asyncapiDocument } from "./asyncapi.ts";
import { composeNatsConfig } from "./compose-nats-config.ts";
import { openapiDocument } from "./openapi.ts";

/** The text of each file. `version` is the package's. */
export function generatedDocuments(version: string): { [file: string]: string } {
  return {
    "openapi.json": textOf(openapiDocument(version)),
    "asyncapi.json": textOf(asyncapiDocument(version)),
    "../../infra/compose/nats-server.conf": composeNatsConfig(),
    "pistis.schema.json": textOf({ title: "pistis.json", ...z.toJSONSchema(pistisConfig, { io: "input" }) }),
  };
}

function textOf(document: object): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}
