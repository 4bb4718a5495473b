// Every bound of docker-proxy, by name. Tests pass smaller ones.

export type ProxyLimits = Readonly<{
  connectionsMax: number;
  headerBytesMax: number;
  targetCharactersMax: number;
  /** A JSON body of a request. */
  bodyBytesMax: number;
  /** The tar file that fills the volume of pistisd. */
  archiveBytesMax: number;
  /** A tar file for a sandbox: its directories and the join token. */
  smallArchiveBytesMax: number;
  /** An answer of the engine that is not a stream. */
  answerBytesMax: number;
  headersMs: number;
  /** How long a request may take to come in whole, a tar file included. */
  requestMs: number;
  /** How long the engine may take for one call, the time that a stop grants included. */
  engineMs: number;
  /** Whoever reads nothing of a waiting answer for so long is cut off. */
  stuckMs: number;
  /** What a call that is in hand at a stop may still take. */
  closeMs: number;
}>;

const KIB = 1_024;
const MIB = 1_024 * KIB;

export const proxyLimits: ProxyLimits = {
  connectionsMax: 512,
  headerBytesMax: 8 * KIB,
  targetCharactersMax: 4 * KIB,
  bodyBytesMax: 64 * KIB,
  archiveBytesMax: 256 * MIB,
  smallArchiveBytesMax: 256 * KIB,
  answerBytesMax: 16 * MIB,
  headersMs: 5_000,
  requestMs: 60_000,
  engineMs: 180_000,
  stuckMs: 30_000,
  closeMs: 10_000,
};
