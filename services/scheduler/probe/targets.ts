// What is tried in a sandbox, and how each attempt ought to end. Pure.
import { parseAuthority } from "#schemas/network/authority.ts";
import type { ProbeSettings } from "#schemas/network/probe-settings.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import type { ProbeTarget } from "#schemas/wire/probe.ts";
import { relayPaths } from "#schemas/wire/relay-http.ts";

export type Trial = Readonly<{
  target: ProbeTarget;
  expected: "closed" | "open";
  name: string;
  /** A refusal may be the firewall's own, which answers in the name of what it shuts. */
  isFirewalled?: boolean;
}>;

/** Ports on which the server listens for as long as it waits for the sandbox's answer. */
export type OwnPorts = Readonly<{ hosts: readonly string[]; tcp: number; udp: number }>;

export type Probing = Readonly<{
  settings: ProbeSettings;
  network: SandboxNetwork;
  /** Whether what the network allows is reached by its own interface, not through the proxy. */
  isRouted: boolean;
  sandboxId: string;
  ownPorts: OwnPorts;
}>;

/** Where pistisd listens for what goes through the proxy. */
export const PROXY_PORT = 3128;

export function trialsFor(probing: Probing): Trial[] {
  const { settings, network, isRouted } = probing;
  const relay = relayEndpoints(probing.sandboxId);
  if (network.mode !== "open") {
    return [...outside(settings), ...names(settings), ...inside(probing), ...relay, ...proxy(settings, network)];
  }
  if (isRouted) return [...internet(settings, true), ...inside(probing).map(firewalled), ...relay];
  const proxied = [...internet(settings, false), ...proxy(settings, network)];
  return [...outside(settings), ...names(settings), ...inside(probing), ...relay, ...proxied];
}

function outside({ outside: addresses }: ProbeSettings): Trial[] {
  return addresses
    .flatMap(placeOf)
    .flatMap((place) => [
      closed({ kind: "tcp", ...place }, `outside ${at(place)} by TCP`),
      closed({ kind: "udp", ...place }, `outside ${at(place)} by UDP`),
    ]);
}

/** A question that is answered carries data out, whatever the answer (C113). */
function names({ name, nameServers }: ProbeSettings): Trial[] {
  return [
    closed({ kind: "dns", name }, "a name, at the resolvers of the sandbox"),
    ...nameServers.map((server) => closed({ kind: "dns", name, server }, `a name, at ${server}`)),
  ];
}

function internet({ internet: addresses }: ProbeSettings, isRouted: boolean): Trial[] {
  return addresses.flatMap(placeOf).map((place) => ({
    target: isRouted ? { kind: "tcp", ...place } : { kind: "proxy-connect", proxyPort: PROXY_PORT, ...place },
    expected: "open",
    name: `internet ${at(place)}`,
  }));
}

function inside({ settings, ownPorts }: Probing): Trial[] {
  const { metadata, private: others, hostPorts } = settings;
  return [
    ...metadata.flatMap(placeOf).map((place) => closed({ kind: "tcp", ...place }, `metadata ${at(place)}`)),
    ...others.flatMap(placeOf).map((place) => closed({ kind: "tcp", ...place }, `private ${at(place)}`)),
    ...ownPorts.hosts.flatMap((host) => [
      closed({ kind: "tcp", host, port: ownPorts.tcp }, `the server at ${host} by TCP`),
      closed({ kind: "udp", host, port: ownPorts.udp }, `the server at ${host} by UDP`),
    ]),
    closed({ kind: "around", ports: [...hostPorts] }, "gateways and neighbours"),
  ];
}

function relayEndpoints(sandboxId: string): Trial[] {
  const endpoints = [
    { method: "GET", path: relayPaths.sandboxes },
    { method: "POST", path: relayPaths.joinTokens },
    { method: "GET", path: relayPaths.attach(sandboxId) },
  ] as const;
  return endpoints.flatMap((endpoint) =>
    (["own", "none"] as const).map((pass) =>
      closed(
        { kind: "relay", ...endpoint, pass },
        `the relay's ${endpoint.path} with ${pass === "own" ? "its own pass" : "no pass"}`,
      ),
    ),
  );
}

/** What the proxy has to refuse; where there is none, nobody is there to let it through (C116). */
function proxy({ name, metadata }: ProbeSettings, network: SandboxNetwork): Trial[] {
  const through = { proxyPort: PROXY_PORT };
  const allowed =
    network.mode === "allow" ? network.allow.map(parseAuthority).find((one) => one !== undefined) : undefined;
  const refused = network.mode === "open" ? [] : [{ host: name, port: 443 }];
  return [
    ...[...refused, ...metadata.flatMap(placeOf)].map((place) =>
      closed({ kind: "proxy-connect", ...through, ...place }, `${at(place)} through the proxy`),
    ),
    ...(allowed === undefined ? [] : mismatches(allowed, name)),
  ];
}

function mismatches({ host, port }: { host: string; port: number | undefined }, name: string): Trial[] {
  const through = { proxyPort: PROXY_PORT, host };
  return [
    closed(
      { kind: "proxy-server-name", ...through, port: port ?? 443, serverName: name },
      `${name} as the TLS server name behind ${host}`,
    ),
    closed(
      { kind: "proxy-host", ...through, port: port ?? 80, hostHeader: name },
      `${name} as the Host header behind ${host}`,
    ),
  ];
}

function firewalled(trial: Trial): Trial {
  return { ...trial, isFirewalled: true };
}

function closed(target: ProbeTarget, name: string): Trial {
  return { target, expected: "closed", name };
}

type Place = Readonly<{ host: string; port: number }>;

function placeOf(text: string): Place[] {
  const { host, port } = parseAuthority(text) ?? {};
  return host === undefined || port === undefined ? [] : [{ host, port }];
}

function at({ host, port }: Place): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
