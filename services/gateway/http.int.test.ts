import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { expect } from "chai";
import { apiError } from "#schemas/api/error.ts";
import { readiness } from "#schemas/api/health.ts";
import { BODY_BYTES_MAX, operations } from "#schemas/api/operations.ts";
import { pathTemplates, pathTo } from "#schemas/api/paths.ts";
import { MESSAGE_CHARACTERS_MAX } from "#schemas/api/session.ts";
import { type Gateway, openWorld, TOKEN, type World } from "./testing/world.ts";

describe("the gateway's door", () => {
  let world: World;
  let gateway: Gateway;

  before(async () => {
    world = await openWorld();
    gateway = await world.gateway();
  });

  after(() => world.close());

  const expectError = async (response: Response, status: number, code: string) => {
    const error = apiError.parse(await response.json());
    expect([response.status, error.code]).to.deep.equal([status, code]);
    expect(error.next).to.be.a("string");
  };
  const raw = (path: string, init: RequestInit = {}, headers: { [name: string]: string } = {}) =>
    fetch(`${gateway.url}${path}`, { ...init, headers: { authorization: `Bearer ${TOKEN}`, ...headers } });

  for (const [id, operation] of Object.entries(operations)) {
    const open = "open" in operation;
    it(`${open ? "answers" : "does not answer"} ${id} without the admin token`, async () => {
      const path = pathTemplates[operation.path].replace(/\{\w+\}/g, "ses_1");
      for (const authorization of ["", "Bearer", "Bearer wrong", `Bearer ${TOKEN}x`, `Basic ${TOKEN}`, TOKEN]) {
        const response = await fetch(`${gateway.url}${path}`, { method: operation.method, headers: { authorization } });
        if (open) expect(response.status).to.equal(200);
        else await expectError(response, 401, "unauthorized");
      }
    });
  }

  it("tells nobody without the token which paths there are", async () => {
    await expectError(await fetch(`${gateway.url}/v1/none`), 401, "unauthorized");
    await expectError(await raw("/v1/none"), 404, "route_not_found");
    await expectError(await raw("/other"), 404, "route_not_found");
  });

  it("answers another method with those that there are", async () => {
    const response = await raw(pathTo("sessions", {}), { method: "PUT" });
    expect(response.headers.get("allow")).to.equal("POST, GET");
    await expectError(response, 405, "method_not_allowed");
  });

  it("opens no stream for a request that takes no body", async () => {
    const response = await raw(pathTo("installStream", {}), { method: "HEAD" });
    expect([response.status, response.headers.get("allow")]).to.deep.equal([405, "GET"]);
  });

  it("answers only requests to a name of this machine, against DNS rebinding", async () => {
    const { port } = new URL(gateway.url);
    const statusFor = (host: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { host, authorization: `Bearer ${TOKEN}` };
        const request = httpRequest(`${gateway.url}/v1/sessions`, { headers, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        request.once("error", reject).end();
      });
    for (const host of [`127.0.0.1:${port}`, "localhost", `LOCALHOST:${port}`, "[::1]:80"]) {
      expect(await statusFor(host), host).to.equal(200);
    }
    for (const host of ["evil.example", `evil.example:${port}`, "127.0.0.1.evil.example", "localhost.evil.example"]) {
      expect(await statusFor(host), host).to.equal(403);
    }
  });

  it("lets no other site read its answers, and no browser render them", async () => {
    const response = await raw(pathTo("sessions", {}), {}, { origin: "https://evil.example" });
    expect(response.headers.get("access-control-allow-origin")).to.equal(null);
    expect(response.headers.get("x-content-type-options")).to.equal("nosniff");
    expect(response.headers.get("content-security-policy")).to.contain("default-src 'none'");
    expect(response.headers.get("x-powered-by")).to.equal(null);
    expect(response.headers.get("cache-control")).to.equal("no-store");
  });

  it("takes a message of the longest text, and no more", async () => {
    const create = (text: string) => gateway.call("POST", pathTo("sessions", {}), { message: { text } });
    expect((await create("\u0001".repeat(MESSAGE_CHARACTERS_MAX))).status).to.equal(201);
    expect((await create("x".repeat(MESSAGE_CHARACTERS_MAX + 1))).status).to.equal(400);
  });

  it("refuses a body that is too large, is no JSON, or says that it is something else", async () => {
    const post = (body: string, type = "application/json", encoding?: string) =>
      raw(
        pathTo("sessions", {}),
        { method: "POST", body },
        { "content-type": type, ...(encoding ? { "content-encoding": encoding } : {}) },
      );
    await expectError(await post(`{"title":"${"x".repeat(BODY_BYTES_MAX)}"}`), 413, "body_too_large");
    await expectError(await post('{"title":'), 400, "invalid_request");
    await expectError(await post('"text"'), 400, "invalid_request");
    await expectError(await post("[]"), 400, "invalid_request");
    await expectError(await post("title=x", "application/x-www-form-urlencoded"), 415, "unsupported_media_type");
    await expectError(await post("{}", "text/plain"), 415, "unsupported_media_type");
    await expectError(await post("{}", "application/json; charset=latin1"), 415, "unsupported_media_type");
    await expectError(await post("{}", "application/json", "compress"), 415, "unsupported_media_type");
    await expectError(await raw("/v1/sessions/%E0%A4%A"), 400, "invalid_request");
    await expectError(await post('{"__proto__":{"title":"x"},"title":"y"}'), 400, "invalid_request");
  });

  it("reads no body of a stranger", async () => {
    const { hostname, port } = new URL(gateway.url);
    const socket = connect({ host: hostname, port: Number(port) });
    socket.write(
      "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n{",
    );
    const answer = await new Promise<string>((resolve) => socket.once("data", (data) => resolve(data.toString())));
    expect(answer).to.match(/^HTTP\/1.1 401 /);
    socket.destroy();
  });

  it("is ready while all that it needs answers, and says what does not", async () => {
    const ready = readiness.parse(await (await raw("/readyz")).json());
    expect(ready).to.deep.equal({ status: "ready", checks: { database: "ok", nats: "ok" } });
    const alone = await world.gateway({ checks: { nats: () => Promise.reject(new Error("away")) } });
    const response = await fetch(`${alone.url}/readyz`);
    expect(response.status).to.equal(503);
    expect(readiness.parse(await response.json()).checks).to.deep.equal({ database: "ok", nats: "failed" });
    expect((await fetch(`${alone.url}/healthz`)).status).to.equal(200);
  });

  it("serves the OpenAPI document", async () => {
    const document = await (await raw("/v1/openapi.json")).json();
    expect(document).to.include({ openapi: "3.1.0" });
  });

  it("says what to do when its address is taken", async () => {
    const { port } = new URL(gateway.url);
    const failure = await world.gateway({ port: Number(port) }).catch((error: unknown) => error);
    expect(failure).to.have.property("code", "gateway_cannot_listen");
    expect(failure).to.have.property("next").that.contains("server.port");
  });

  it("stops at once though clients hold connections on which they ask nothing", async () => {
    const stopping = await world.gateway({ limits: { closeMs: 600_000 } });
    const { hostname, port } = new URL(stopping.url);
    const socket = connect({ host: hostname, port: Number(port) });
    await once(socket, "connect");
    await stopping.call("GET", "/healthz");
    await Promise.all([once(socket.resume(), "close"), stopping.close()]);
  });

  it("tells the caller nothing of what went wrong inside", async () => {
    const broken = await world.gateway({
      ledger: {
        read: () => Promise.reject(new Error("password of the database")),
        append: () => Promise.reject(new Error("password of the database")),
      },
    });
    const response = await broken.call("POST", pathTo("sessions", {}), {});
    expect(response.status).to.equal(500);
    expect(JSON.stringify(response.json)).to.not.contain("password");
  });
});
