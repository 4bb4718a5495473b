import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { z } from "zod";
import { operations } from "#schemas/api/operations.ts";
import { pathTemplates } from "#schemas/api/paths.ts";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { catalogue } from "#schemas/ledger/event.ts";
import { generatedDocuments } from "../infra/generated-documents/documents.ts";

const version = "0.0.0-test";
const documents = generatedDocuments(version);
const documentOf = (file: string): unknown => JSON.parse(documents[file] ?? "");
const openapiForm = z.object({
  openapi: z.string(),
  paths: z.record(z.string(), z.record(z.string(), z.object({ operationId: z.string() }))),
});

function refsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) =>
    key === "$ref" && typeof part === "string" ? [part] : refsIn(part),
  );
}

function resolves(document: unknown, ref: string): boolean {
  const steps = ref
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  let value: unknown = document;
  for (const step of steps) {
    if (typeof value !== "object" || value === null || !(step in value)) return false;
    value = new Map(Object.entries(value)).get(step);
  }
  return ref.startsWith("#/");
}

describe("the generated documents", () => {
  for (const file of Object.keys(documents).filter((name) => name.endsWith(".json"))) {
    it(`${file} has no reference that leads nowhere`, () => {
      const document = documentOf(file);
      expect(refsIn(document).filter((ref) => !resolves(document, ref))).to.deep.equal([]);
    });
  }

  for (const file of Object.keys(documents)) {
    it(`${file} is checked in as the schemas say`, () => {
      const root = join(import.meta.dirname, "..");
      const own = z.object({ version: z.string() }).parse(JSON.parse(readFileSync(join(root, "package.json"), "utf8")));
      const stored = readFileSync(join(import.meta.dirname, "generated", file), "utf8");
      expect(stored === generatedDocuments(own.version)[file], "run `npm run generate`").to.equal(true);
    });
  }

  it("describe every operation of the API under its path", () => {
    const { openapi, paths } = openapiForm.parse(documentOf("openapi.json"));
    expect(openapi).to.equal("3.1.0");
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => `${operationId} ${method} ${path}`),
    );
    const expected = Object.entries(operations).map(
      ([id, { method, path }]) => `${id} ${method} ${pathTemplates[path]}`,
    );
    expect(described.sort()).to.deep.equal(expected.sort());
  });

  it("describe every event of the ledger, with its one writer", () => {
    const { components } = z
      .object({ components: z.object({ messages: z.record(z.string(), z.object({ tags: z.unknown().optional() })) }) })
      .parse(documentOf("asyncapi.json"));
    for (const [type, { writer }] of Object.entries(catalogue)) {
      expect(components.messages[type]?.tags, type).to.deep.equal([{ name: writer }]);
    }
  });

  it("describe every key of pistis.json, none of which is required", () => {
    const { properties, required } = z
      .object({ properties: z.record(z.string(), z.unknown()), required: z.array(z.string()).optional() })
      .parse(documentOf("pistis.schema.json"));
    expect(Object.keys(properties).sort()).to.deep.equal(Object.keys(pistisConfig.shape).sort());
    expect(required ?? []).to.deep.equal([]);
  });
});
