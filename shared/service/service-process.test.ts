import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { variables } from "./environment.ts";
import { keepHealthFile } from "./health-file.ts";
import { silentLog } from "./log.ts";
import { Resources } from "./resources.ts";
import { type Host, runService, type ServiceProcess, serviceProcess } from "./service-process.ts";

const SEED = `SU${"A".repeat(56)}`;

function process(environment: Record<string, string>) {
  const written = { out: "", err: "" };
  let stop: (() => void) | undefined;
  const listening = Promise.withResolvers<void>();
  const host: Host = {
    environment,
    out: (text) => {
      written.out += text;
      listening.resolve();
    },
    err: (text) => {
      written.err += text;
    },
    onStop: (handle) => {
      stop = handle;
      return () => {
        stop = undefined;
      };
    },
  };
  return { host, written, ready: listening.promise, signal: () => stop?.(), hearsSignals: () => stop !== undefined };
}

const closed: string[] = [];

/** `fails`: why it does not open; a list is what its first attempts meet. */
function service(fails: Error | Error[] = [], opened?: (resources: Resources) => void): ServiceProcess {
  return serviceProcess({
    name: "example",
    about: "an example",
    natsUser: "relay",
    variables: { PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED, PISTIS_DATA: variables.PISTIS_DATA },
    open: async ({ PISTIS_DATA }, { resources }) => {
      resources.add("first", PISTIS_DATA, () => closed.push("first"));
      const failure = Array.isArray(fails) ? fails.shift() : fails;
      if (failure !== undefined) throw failure;
      resources.add("second", PISTIS_DATA, () => closed.push("second"));
      opened?.(resources);
      return { url: "http://127.0.0.1:1" };
    },
  });
}

describe("a service as a process", () => {
  beforeEach(() => {
    closed.length = 0;
  });

  it("says when it serves and where, and closes in reverse at a signal with exit code 0", async () => {
    const { host, written, ready, signal, hearsSignals } = process({ PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data" });
    const exitCode = runService(service(), host);
    await ready;
    expect(written.out).to.equal("ready example http://127.0.0.1:1\n");
    signal();
    expect(await exitCode).to.equal(0);
    expect(closed).to.deep.equal(["second", "first"]);
    expect(hearsSignals()).to.equal(false);
  });

  it("keeps a health file while it serves, and no other time", async () => {
    const folder = await mkdtemp(join(tmpdir(), "pistis-health-"));
    try {
      const file = join(folder, "healthy");
      await writeFile(file, "of an earlier process");
      const environment = { PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data", PISTIS_HEALTH_FILE: file };
      const broken = process(environment);
      const hasty = { ...broken.host, startPatienceMs: 0 };
      expect(await runService(service(new Error("No luck")), hasty)).to.equal(1);
      expect(existsSync(file)).to.equal(false);
      const { host, ready, signal } = process(environment);
      const exitCode = runService(service(), host);
      await ready;
      expect(Date.now() - (await stat(file)).mtimeMs).to.be.lessThan(5_000);
      signal();
      expect(await exitCode).to.equal(0);
      expect(existsSync(file)).to.equal(false);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("writes its health file again and again", async () => {
    const folder = await mkdtemp(join(tmpdir(), "pistis-health-"));
    const resources = new Resources();
    try {
      const file = join(folder, "healthy");
      await keepHealthFile(file, silentLog, resources, 5);
      const first = await readFile(file, "utf8");
      const deadline = Date.now() + 5_000;
      while ((await readFile(file, "utf8")) === first) expect(Date.now()).to.be.lessThan(deadline);
    } finally {
      await resources.close();
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("closes what it had opened when it cannot start, and says why and what next in one line each", async () => {
    const { host, written } = process({ PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data" });
    const failure = new Refusal("no_luck", "There is no luck", { next: "Try again" });
    expect(await runService(service(failure), host)).to.equal(1);
    expect(written).to.deep.equal({ out: "", err: "pistis example: There is no luck (no_luck)\n  next: Try again\n" });
    expect(closed).to.deep.equal(["first"]);
  });

  const away = () => new Retryable("nats_unreachable", "NATS is away", { retryAfterMs: 1_000, next: "Start it" });

  it("waits for a server that is away, says so once, and serves when it is there", async () => {
    const { host, written, ready, signal } = process({ PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data" });
    const exitCode = runService(service([away(), away()]), host);
    await ready;
    const said = "pistis example: NATS is away (nats_unreachable); it is tried again for 60 s\n  next: Start it\n";
    expect(written.err).to.equal(said);
    expect(closed).to.deep.equal(["first", "first"]);
    signal();
    expect(await exitCode).to.equal(0);
  });

  it("tries again when something that has no name breaks off in the middle of the start", async () => {
    const { host, written, ready, signal } = process({ PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data" });
    const exitCode = runService(service([new Error("Connection terminated unexpectedly")]), host);
    await ready;
    const said = "pistis example: Connection terminated unexpectedly (internal); it is tried again for 60 s\n";
    expect(written.err).to.equal(said);
    signal();
    expect(await exitCode).to.equal(0);
  });

  it("ends with exit code 1 when the server stays away, and with 0 at a signal meanwhile", async () => {
    const environment = { PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data" };
    const impatient = process(environment);
    expect(await runService(service(away()), { ...impatient.host, startPatienceMs: 0 })).to.equal(1);
    expect(impatient.written.err).to.contain("pistis example: NATS is away (nats_unreachable)\n  next: ");
    const stopped = process(environment);
    const exitCode = runService(service(away()), { ...stopped.host, err: () => stopped.signal() });
    expect(await exitCode).to.equal(0);
  });

  it("ends with exit code 1 when something that it needs has ended for good, and says why and what next", async () => {
    const { host, written, ready } = process({ PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data" });
    const opening = Promise.withResolvers<Resources>();
    const exitCode = runService(service([], opening.resolve), host);
    await ready;
    (await opening.promise).break(new Refusal("ended", "The connection has ended for good", { next: "Start it" }));
    expect(await exitCode).to.equal(1);
    expect(written.err).to.equal("pistis example: The connection has ended for good (ended)\n  next: Start it\n");
    expect(closed).to.deep.equal(["second", "first"]);
  });

  it("names every variable that is missing or wrong and shows no value", async () => {
    const { host, written } = process({ PISTIS_NATS_SEED: "a-secret", PISTIS_DATA: "" });
    expect(await runService(service(), host)).to.equal(1);
    expect(written.err).to.contain("PISTIS_NATS_SEED: is no seed of a NATS user (SU...); PISTIS_DATA is not set");
    expect(written.err).to.contain("next: `pistis example --help`").and.to.not.contain("a-secret");
  });

  it("ends with exit code 0 when the signal comes during the start", async () => {
    const { host, signal } = process({ PISTIS_NATS_SEED: SEED, PISTIS_DATA: "/data" });
    const exitCode = runService(service(), host);
    signal();
    expect(await exitCode).to.equal(0);
    expect(closed).to.deep.equal(["second", "first"]);
  });

  it("describes in its help every variable that it reads", () => {
    const { help, variableNames } = service();
    for (const name of variableNames) expect(help).to.match(new RegExp(`^  ${name} +\\S`, "m"));
  });
});
