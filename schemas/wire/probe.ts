// What pistisd tries when it is asked how closed its network is. The answer comes from a sandbox that may lie: it proves
// that an honest sandbox is closed, and what the server itself hears on its own listener is not the sandbox's to hide.
import { z } from "zod";

export const PROBE_TARGETS_MAX = 200;
export const PROBE_FINDINGS_MAX = 1_000;
export const PROBE_MS_MAX = 10_000;

const host = z.union([z.ipv4(), z.ipv6()]).describe("An address: a probe resolves no name but its canary");
const port = z.number().int().min(1).max(65_535);
const address = { host, port };
const proxied = { proxyPort: port, host: z.string().min(1).max(253), port };

export const probeTarget = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("tcp"), ...address }),
  z.strictObject({ kind: z.literal("udp"), ...address }),
  z.strictObject({
    kind: z.literal("dns"),
    name: z.string().min(1).max(253),
    server: host.optional().describe("The resolvers that the sandbox is set up with, when absent"),
  }),
  z
    .strictObject({ kind: z.literal("around"), ports: z.array(port).min(1).max(32) })
    .describe("The gateways and neighbours that the sandbox sees on its own interfaces"),
  z
    .strictObject({
      kind: z.literal("relay"),
      method: z.enum(["GET", "POST"]),
      path: z.string().startsWith("/").max(300),
      pass: z.enum(["own", "none"]),
    })
    .describe("An endpoint of the relay that is not for sandboxes"),
  z.strictObject({ kind: z.literal("proxy-connect"), ...proxied }).describe("CONNECT through the sandbox's own proxy"),
  z
    .strictObject({ kind: z.literal("proxy-server-name"), ...proxied, serverName: z.string().min(1).max(253) })
    .describe("CONNECT to one host, then a TLS greeting that names another"),
  z
    .strictObject({ kind: z.literal("proxy-host"), ...proxied, hostHeader: z.string().min(1).max(253) })
    .describe("A plain request for one host with the Host header of another"),
]);

export const probeOutcome = z.enum([
  "answered",
  "refused",
  "unreachable",
  "timed-out",
  "no-interface",
  "denied",
  "failed",
]);

export const probeRequest = z.strictObject({
  op: z.literal("probe"),
  targets: z.array(probeTarget).min(1).max(PROBE_TARGETS_MAX),
  timeoutMs: z.number().int().min(50).max(PROBE_MS_MAX).describe("Of each attempt; all are made at once"),
});

export const probeAnswer = z.strictObject({
  findings: z
    .array(
      z.strictObject({
        target: z.number().int().nonnegative().describe("Index in the request's targets"),
        at: z.string().max(200).describe("What exactly was tried"),
        outcome: probeOutcome,
      }),
    )
    .max(PROBE_FINDINGS_MAX),
});

export type ProbeTarget = z.output<typeof probeTarget>;
export type ProbeOutcome = z.output<typeof probeOutcome>;
export type ProbeAnswer = z.output<typeof probeAnswer>;
export type ProbeFinding = ProbeAnswer["findings"][number];
