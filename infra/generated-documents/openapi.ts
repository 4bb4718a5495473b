// The OpenAPI document of the gateway, from the table of operations that the gateway itself mounts.
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject } from "zod-openapi";
import { apiError, apiErrorStatus } from "#schemas/api/error.ts";
import { type Operation, operations } from "#schemas/api/operations.ts";
import { pathTemplates } from "#schemas/api/paths.ts";
import { liveEvent } from "#schemas/api/stream.ts";

/** Any operation may fail in these ways. */
const always = ["invalid_request", "host_not_allowed", "internal", "unavailable"] as const;

export function openapiDocument(version: string): object {
  return createDocument({
    openapi: "3.1.0",
    info: {
      title: "Pistis",
      version,
      description: "Sessions and messages in, the ledger and files out. Errors are branched on by `code`.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    security: [{ adminToken: [] }],
    paths: pathsOf(Object.entries(operations)),
    components: {
      securitySchemes: {
        adminToken: { type: "http", scheme: "bearer", description: "Printed at the first start" },
      },
      // Data of the streams' `live` events; that of `ledger` events is a LedgerMessage, which a page refers to.
      schemas: { LiveEvent: liveEvent },
    },
  });
}

function pathsOf(entries: [string, Operation][]): ZodOpenApiPathsObject {
  const paths: ZodOpenApiPathsObject = {};
  for (const [operationId, operation] of entries) {
    const path = pathTemplates[operation.path];
    paths[path] = { ...paths[path], [operation.method]: operationObject(operationId, operation) };
  }
  return paths;
}

function operationObject(operationId: string, operation: Operation): ZodOpenApiOperationObject {
  const { summary, params, query, headers, body } = operation;
  return {
    operationId,
    summary,
    ...(operation.open ? { security: [] } : {}),
    requestParams: {
      ...(params === undefined ? {} : { path: params }),
      ...(query === undefined ? {} : { query }),
      ...(headers === undefined ? {} : { header: headers }),
    },
    ...(body === undefined ? {} : { requestBody: { content: { "application/json": { schema: body } } } }),
    responses: { ...answersOf(operation), ...errorsOf(operation) },
  };
}

function answersOf({ answers }: Operation) {
  return Object.fromEntries(
    answers.map((answer) => {
      const content =
        "json" in answer ? { "application/json": { schema: answer.json } } : { [answer.media]: mediaOf(answer.media) };
      return [String(answer.status), { description: answer.summary, content }] as const;
    }),
  );
}

function mediaOf(media: string) {
  return media === "application/octet-stream" ? {} : { schema: { type: "string" as const } };
}

function errorsOf({ errors, open }: Operation) {
  const codes = open ? [] : [...new Set([...errors, ...always, "unauthorized" as const])];
  const byStatus = Map.groupBy(codes, (code) => apiErrorStatus[code]);
  return Object.fromEntries(
    [...byStatus].map(([status, those]) => {
      const description = `Code: ${those.join(", ")}`;
      return [String(status), { description, content: { "application/json": { schema: apiError } } }] as const;
    }),
  );
}
