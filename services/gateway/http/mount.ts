// From the table of operations to express routes: every request is parsed by the schemas of its operation before
// its handler sees it.
import express, { type Express, type Request, type Response, Router } from "express";
import type { z } from "zod";
import { BODY_BYTES_MAX, type Operation, type OperationId, operations } from "#schemas/api/operations.ts";
import { type PathName, pathTemplates } from "#schemas/api/paths.ts";
import { InvalidRequest, sendError } from "./answer-error.ts";

type Parsed<O, Part extends string> = O extends { [P in Part]: infer Schema extends z.ZodType }
  ? z.output<Schema>
  : undefined;

export type InputOf<Id extends OperationId> = Readonly<{
  params: Parsed<(typeof operations)[Id], "params">;
  query: Parsed<(typeof operations)[Id], "query">;
  headers: Parsed<(typeof operations)[Id], "headers">;
  body: Parsed<(typeof operations)[Id], "body">;
}>;

/** Answers by itself (a stream, a download) or resolves with what to answer. */
export type Handler<Id extends OperationId> = (
  input: InputOf<Id>,
  response: Response,
) => Promise<{ status: number; json: unknown } | undefined>;

export type Handlers = { [Id in OperationId]: Handler<Id> };

type Route = Readonly<{ operation: Operation; run: (request: Request, response: Response) => Promise<void> }>;

export function mount(app: Express, handlers: Handlers, guard: express.RequestHandler): void {
  const routes = Object.keys(operations)
    .filter(isOperationId)
    .map((id) => routeOf(id, handlers));
  const open = routes.filter(({ operation }) => operation.open);
  const guarded = routes.filter(({ operation }) => !operation.open);
  app.use(routerOf(open));
  // The guard comes before the routes, so that without a token nobody learns which paths there are.
  app.use("/v1", guard);
  app.use(routerOf(guarded));
}

function routerOf(routes: readonly Route[]): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const readJson = express.json({ limit: BODY_BYTES_MAX, type: "application/json" });
  const paths = new Map<PathName, string[]>();
  for (const { operation, run } of routes) {
    const path = expressPath(operation.path);
    const before = operation.body === undefined ? [] : [onlyJson, readJson];
    router[operation.method](path, ...before, (request, response) => run(request, response));
    paths.set(operation.path, [...(paths.get(operation.path) ?? []), operation.method.toUpperCase()]);
  }
  for (const [path, methods] of paths) router.all(expressPath(path), otherMethod(methods));
  return router;
}

function routeOf<Id extends OperationId>(id: Id, handlers: Handlers): Route {
  const operation: Operation = operations[id];
  const handler: Handlers[Id] = handlers[id];
  const run = async (request: Request, response: Response) => {
    const answer = await handler(inputOf<Id>(operation, request), response);
    if (answer !== undefined) response.status(answer.status).json(answer.json);
  };
  return { operation, run };
}

// The table's type says what each schema gives; the loop over it cannot, hence the one cast.
function inputOf<Id extends OperationId>({ params, query, headers, body }: Operation, request: Request): InputOf<Id> {
  return {
    params: parse("path", params, request.params),
    query: parse("query", query, request.query),
    headers: parse("headers", headers, request.headers),
    body: parse("body", body, request.body ?? {}),
  } as InputOf<Id>;
}

function parse(where: string, schema: z.ZodType | undefined, value: unknown): unknown {
  const parsed = schema?.safeParse(value);
  if (parsed === undefined || parsed.success) return parsed?.data;
  throw new InvalidRequest(where, parsed.error);
}

const onlyJson: express.RequestHandler = (request, response, next) => {
  // null: there is no body at all, which is an empty object to the schema.
  if (request.is("application/json") !== false) return next();
  const message = "The request's body is not JSON";
  sendError(response, { code: "unsupported_media_type", message, next: "Send `Content-Type: application/json`." });
};

function otherMethod(methods: readonly string[]): express.RequestHandler {
  return (request, response) => {
    response.set("allow", methods.join(", "));
    const message = `${request.method} is not what this path takes`;
    sendError(response, { code: "method_not_allowed", message, next: `Use ${methods.join(" or ")}.` });
  };
}

function expressPath(path: PathName): string {
  return pathTemplates[path].replace(/\{(\w+)\}/g, ":$1");
}

function isOperationId(id: string): id is OperationId {
  return Object.hasOwn(operations, id);
}
