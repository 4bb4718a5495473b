// The one place that builds URLs of the HTTP API. The gateway mounts these templates, the OpenAPI document
// lists them, and clients fill them in with `pathTo`.

export const pathTemplates = {
  sessions: "/v1/sessions",
  session: "/v1/sessions/{sessionId}",
  messages: "/v1/sessions/{sessionId}/messages",
  message: "/v1/sessions/{sessionId}/messages/{messageId}",
  interrupt: "/v1/sessions/{sessionId}/interrupt",
  events: "/v1/sessions/{sessionId}/events",
  stream: "/v1/sessions/{sessionId}/stream",
  files: "/v1/sessions/{sessionId}/files",
  fileContent: "/v1/sessions/{sessionId}/files/content",
  callOutput: "/v1/sessions/{sessionId}/calls/{callId}/output",
  installStream: "/v1/events/stream",
  openapi: "/v1/openapi.json",
  health: "/healthz",
  ready: "/readyz",
} as const;

export type PathName = keyof typeof pathTemplates;

type ParametersIn<Template extends string> = Template extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParametersIn<Rest>
  : never;

export type PathParameters<Name extends PathName> = { [P in ParametersIn<(typeof pathTemplates)[Name]>]: string };
export type Query = { [key: string]: string | number | boolean | undefined };

/** Path and query of a request, each part percent-encoded; keys whose value is undefined are left out. */
export function pathTo<Name extends PathName>(name: Name, parameters: PathParameters<Name>, query: Query = {}): string {
  const given: { [name: string]: string } = parameters;
  const path = pathTemplates[name].replace(/\{(\w+)\}/g, (_, key: string) => encoded(given[key] ?? ""));
  const search = Object.entries(query).flatMap(([key, value]) =>
    value === undefined ? [] : [`${encoded(key)}=${encoded(String(value))}`],
  );
  return search.length === 0 ? path : `${path}?${search.join("&")}`;
}

function encoded(text: string): string {
  // Half a character cannot be encoded; it becomes the replacement character.
  return encodeURIComponent(text.toWellFormed());
}
