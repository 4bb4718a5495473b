// Every bound of the relay, by name. Tests pass smaller ones.

export type RelayLimits = Readonly<{
  /** Each leg is pinged this often; after `silentPingsMax` pings without any sign of life it is cut (within 15 s). */
  pingMs: number;
  silentPingsMax: number;
  /** A leg with more than this waiting to be sent makes the relay stop reading whoever writes to it. */
  legBufferBytesMax: number;
  /** What a frame that waits counts for beside its bytes. */
  frameBytesKept: number;
  /** Of one leg, and how many more it may send at once. One that sends more is slowed down. */
  framesPerSecond: number;
  frameBurst: number;
  /** Of the relay's time, for one leg while frames of other sandboxes pass, and how much of it at once. */
  timeShare: number;
  timeBurstMs: number;
  /** A leg that does not empty its buffer within this time is cut. */
  stuckMs: number;
  serverLegsMax: number;
  sandboxesMax: number;
  /** Kept per sandbox so that a used token stays used. */
  tokensPerSandboxMax: number;
  /** TCP connections that have not shown a valid pass or key; the oldest one makes way. */
  unprovenConnectionsMax: number;
  badKeysPerMinuteMax: number;
  connectsPerMinuteMax: number;
  /** Open connections of one sandbox to the egress service, and how many it may open in a minute. */
  egressPerSandboxMax: number;
  egressPerMinuteMax: number;
  /** How long the egress service may take to take one. */
  egressAnswerMs: number;
  /** On a sandbox's own socket. Whoever opens more finds nobody there for `socketRestMs`. */
  socketConnectionsPerSecond: number;
  socketConnectionBurst: number;
  /** Of those, how many may have shown no pass yet; the oldest are dropped. */
  socketUnprovenMax: number;
  socketRestMs: number;
  /** Frames that a sandbox may still send to a channel that was just closed. */
  lateFramesMax: number;
  headerBytesMax: number;
  bodyBytesMax: number;
  /** How long a closing relay waits for its legs to say goodbye. */
  closeMs: number;
}>;

export const relayLimits: RelayLimits = {
  pingMs: 5_000,
  silentPingsMax: 2,
  legBufferBytesMax: 8 * 1024 * 1024,
  frameBytesKept: 256,
  framesPerSecond: 20_000,
  frameBurst: 20_000,
  timeShare: 0.05,
  timeBurstMs: 50,
  stuckMs: 10_000,
  serverLegsMax: 64,
  sandboxesMax: 10_000,
  tokensPerSandboxMax: 256,
  unprovenConnectionsMax: 256,
  badKeysPerMinuteMax: 60,
  connectsPerMinuteMax: 60,
  egressPerSandboxMax: 128,
  egressPerMinuteMax: 3_000,
  socketConnectionsPerSecond: 50,
  socketConnectionBurst: 200,
  socketUnprovenMax: 128,
  socketRestMs: 1_000,
  egressAnswerMs: 5_000,
  lateFramesMax: 10_000,
  headerBytesMax: 8 * 1024,
  bodyBytesMax: 4 * 1024,
  closeMs: 2_000,
};
