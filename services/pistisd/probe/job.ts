// The probe itself. Runs in a process of its own, as a command would, and prints one JSON value.
import { z } from "zod";
import { failure } from "#schemas/wire/message.ts";
import { type ProbeFinding, type ProbeTarget, probeAnswer, probeTarget } from "#schemas/wire/probe.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { socketAddress } from "./address-bytes.ts";
import { type Attempt, makeAttempts } from "./attempts.ts";
import { anyAnswer, dnsQuestion, proxyConnect, proxyHost, proxyServerName } from "./dialogue.ts";
import { openSockets } from "./libc-sockets.ts";
import { lookAround } from "./look-around.ts";
import { type Place, placesAround, type Surroundings } from "./surroundings.ts";

export const probeJob = z.object({
  targets: z.array(z.object({ index: z.number(), target: probeTarget })),
  timeoutMs: z.number(),
});
export const probeOutput = z.union([probeAnswer, z.object({ failure })]);

type Planned = Readonly<{ target: number; at: string; attempt: Attempt | undefined }>;

const DNS_PORT = 53;
const PROXY_HOST = "127.0.0.1";

export function runProbeJob(argument: string): z.output<typeof probeOutput> {
  try {
    const { targets, timeoutMs } = probeJob.parse(JSON.parse(argument));
    const surroundings = lookAround();
    const planned = targets.flatMap(({ index, target }) => plan(index, target, surroundings));
    return { findings: carryOut(planned, timeoutMs) };
  } catch (error) {
    return { failure: failureOf(error) };
  }
}

function carryOut(planned: readonly Planned[], timeoutMs: number): ProbeFinding[] {
  const attempts = planned.flatMap(({ attempt }) => (attempt === undefined ? [] : [attempt]));
  const outcomes = makeAttempts(openSockets(), attempts, timeoutMs);
  return planned.map(({ target, at, attempt }) => {
    const outcome = attempt === undefined ? "no-interface" : (outcomes[attempts.indexOf(attempt)] ?? "failed");
    return { target, at, outcome };
  });
}

function plan(target: number, asked: ProbeTarget, surroundings: Surroundings): Planned[] {
  const through = (dialogue: Attempt["dialogue"], port: number, at: string): Planned[] => [
    { target, at, attempt: attemptAt("stream", { host: PROXY_HOST, scope: 0 }, port, dialogue) },
  ];
  switch (asked.kind) {
    case "tcp":
      return [{ target, at: "", attempt: attemptAt("stream", { host: asked.host, scope: 0 }, asked.port) }];
    case "udp":
      return [{ target, at: "", attempt: attemptAt("datagram", { host: asked.host, scope: 0 }, asked.port, ping()) }];
    case "dns":
      return (asked.server === undefined ? surroundings.resolvers : [asked.server]).map((server) => ({
        target,
        at: server,
        attempt: attemptAt("datagram", { host: server, scope: 0 }, DNS_PORT, anyAnswer(dnsQuestion(asked.name))),
      }));
    case "around":
      return around(target, asked.ports, surroundings);
    case "proxy-connect":
      return through(proxyConnect(asked.host, asked.port), asked.proxyPort, "");
    case "proxy-server-name":
      return through(proxyServerName(asked.host, asked.port, asked.serverName), asked.proxyPort, "");
    case "proxy-host":
      return through(proxyHost(asked.host, asked.port, asked.hostHeader), asked.proxyPort, "");
    case "relay":
      return [];
  }
}

function around(target: number, ports: readonly number[], surroundings: Surroundings): Planned[] {
  if (surroundings.interfaces.length === 0) return [{ target, at: "", attempt: undefined }];
  return placesAround(surroundings).flatMap((place) =>
    ports.map((port) => ({ target, at: `${place.host} port ${port}`, attempt: attemptAt("stream", place, port) })),
  );
}

function attemptAt(
  type: Attempt["type"],
  { host, scope }: Place,
  port: number,
  dialogue?: Attempt["dialogue"],
): Attempt {
  const address = socketAddress(host, port, scope);
  return dialogue === undefined ? { type, address } : { type, address, dialogue };
}

function ping() {
  return anyAnswer(Buffer.from("pistis-probe"));
}
