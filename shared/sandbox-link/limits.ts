// Every bound of a link, by name. Tests pass smaller ones.

export type LinkLimits = Readonly<{
  reconnectMsMin: number;
  reconnectMsMax: number;
  handshakeMs: number;
  /** The relay pings every 5 s; a socket on which nothing came for this long is dead. */
  silenceMs: number;
  /** A sandbox that answers nothing to a request for this long is given up; a command has its own time before that. */
  answerMs: number;
  /** A file may take its bytes at this rate, beyond that. */
  bytesPerSecondMin: number;
  /** What the output of a command that has ended may still take; 256 MiB of it are kept. Without the rest the result stands. */
  outputRestMs: number;
  requestsMax: number;
  /** Frames that belong to nothing any more, as after a cancelled read, beyond the credit that was given. */
  strayFramesMax: number;
}>;

export const linkLimits: LinkLimits = {
  reconnectMsMin: 50,
  reconnectMsMax: 5_000,
  handshakeMs: 10_000,
  silenceMs: 13_000,
  answerMs: 30_000,
  bytesPerSecondMin: 64 * 1024,
  outputRestMs: 1_800_000,
  requestsMax: 1_000,
  strayFramesMax: 10_000,
};
