// Who gets in: hosts that are ours, bearers of the admin token, and answers that a browser leaves alone.
import { createHash, timingSafeEqual } from "node:crypto";
import type { RequestHandler } from "express";
import { failureOf } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { sendError } from "./answer-error.ts";

const BEARER = /^Bearer +([^\s]+) *$/i;
const LOOPBACK = ["127.0.0.1", "::1", "localhost"];

export const securityHeaders: RequestHandler = (_request, response, next) => {
  response.set({
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
  });
  next();
};

/** Streams and downloads have no answer without a body, so none of the API's paths is asked for its headers alone. */
export const noHead: RequestHandler = (request, response, next) => {
  if (request.method !== "HEAD") return next();
  response.set("allow", "GET").status(405).end();
};

/** A client that is gone shows as an error of its response, which nobody else listens to; it is no failure of ours. */
export function quietResponses(log: Log): RequestHandler {
  return (request, response, next) => {
    response.on("error", (error) => log.debug({ path: request.path, failure: failureOf(error) }, "A client is gone"));
    next();
  };
}

/**
 * On a loopback address only loopback names are answered: a web page whose own name was pointed at 127.0.0.1
 * (DNS rebinding) names itself in the Host header.
 */
export function hostCheck(host: string): RequestHandler {
  if (!LOOPBACK.includes(host)) return (_request, _response, next) => next();
  return (request, response, next) => {
    if (LOOPBACK.includes(nameIn(request.headers.host ?? ""))) return next();
    sendError(response, {
      code: "host_not_allowed",
      message: "The Host header names another machine",
      next: "Ask for 127.0.0.1 or localhost, or set server.host in pistis.json to the address to listen on.",
    });
  };
}

/** Takes the same time for every wrong token, however much of it is right. */
export function adminOnly(token: string): RequestHandler {
  const expected = digestOf(token);
  return (request, response, next) => {
    const given = BEARER.exec(request.headers.authorization ?? "")?.[1];
    if (given !== undefined && timingSafeEqual(digestOf(given), expected)) return next();
    response.set("www-authenticate", "Bearer");
    sendError(response, {
      code: "unauthorized",
      message: given === undefined ? "The request has no token" : "The token is not the admin token",
      next: "Send `Authorization: Bearer <admin token>`; it was printed at the first start.",
    });
  };
}

/** The name in `name:port`; an IPv6 address stands in brackets. */
function nameIn(host: string): string {
  const bracketed = /^\[([^\]]*)\](:\d+)?$/.exec(host);
  return (bracketed?.[1] ?? host.replace(/:\d+$/, "")).toLowerCase();
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
