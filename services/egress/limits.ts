// Every bound of the egress service, by name. Tests pass smaller ones.

export type EgressLimits = Readonly<{
  /** Open connections of one sandbox, and of all together. */
  connectionsPerSandboxMax: number;
  connectionsMax: number;
  /** How long the relay has for the line that says who asks. */
  greetingMs: number;
  /** How long a client has for the head of a request, and a tunnel's client for its ClientHello. */
  headMs: number;
  headBytesMax: number;
  clientHelloBytesMax: number;
  /** Nothing but TLS goes to this port. */
  tlsOnlyPort: number;
  resolveMs: number;
  connectMs: number;
  /** Addresses of one name that are tried. */
  addressesMax: number;
  /** A connection on which nothing moves for this long is closed. */
  idleMs: number;
  /** Events of one sandbox in one minute; what is beyond is counted. */
  eventsPerMinuteMax: number;
  /** Requests are reported this often. */
  reportMs: number;
}>;

export const egressLimits: EgressLimits = {
  connectionsPerSandboxMax: 128,
  connectionsMax: 8_192,
  greetingMs: 5_000,
  headMs: 15_000,
  headBytesMax: 32 * 1024,
  clientHelloBytesMax: 64 * 1024,
  tlsOnlyPort: 443,
  resolveMs: 5_000,
  connectMs: 10_000,
  addressesMax: 4,
  idleMs: 300_000,
  eventsPerMinuteMax: 120,
  reportMs: 1_000,
};
