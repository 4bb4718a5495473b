import type { IncomingMessage } from "node:http";
import { forbidden, malformed } from "./refused.ts";

/** No header is passed on, so any may come; these would change what the request is. */
const CHANGING = [
  "upgrade",
  "expect",
  "trailer",
  "te",
  "content-encoding",
  "x-http-method-override",
  "x-registry-auth",
];

/** Throws Refused where two readers could take the request for two different ones. */
export function checkHeaders({ rawHeaders, headers }: IncomingMessage): void {
  const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) throw malformed("header_repeated", `The header ${repeated} came twice`);
  const changing = CHANGING.find((name) => headers[name] !== undefined);
  if (changing !== undefined) throw forbidden("header_refused", `The header ${changing} is not taken here`);
  const { connection = "", "transfer-encoding": coding = "chunked" } = headers;
  if (coding.toLowerCase() !== "chunked") throw malformed("coding_refused", "A body comes with a length or in chunks");
  if (!["", "close", "keep-alive"].includes(connection.toLowerCase())) {
    throw forbidden("header_refused", "Connection is close or keep-alive here");
  }
}
