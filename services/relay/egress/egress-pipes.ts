// A sandbox's way out: its connections go to the egress service byte for byte. The relay says whose they are, by the
// pass that it checked, and knows nothing of what may be reached.
import { connect, type Socket } from "node:net";
import { type EgressAddress, type EgressGreeting, GREETING_TAKEN } from "#schemas/network/egress-pipe.ts";
import { EGRESS_PROTOCOL } from "#schemas/wire/relay-http.ts";
import type { Log } from "#shared/service/log.ts";
import { joinSockets } from "#shared/sockets/join-sockets.ts";
import { HttpError, refuseUpgrade, tooMany } from "../http/answers.ts";
import type { RelayLimits } from "../limits.ts";

export type EgressService = Readonly<{ address: EgressAddress; key: string }>;

export type EgressPipes = Readonly<{
  /** Answers the upgrade. Throws HttpError for what is refused at once. */
  open: (arrival: EgressArrival) => void;
  /** Cuts every connection of the sandbox. */
  cut: (sandboxId: string) => void;
  close: () => void;
}>;

export type EgressArrival = Readonly<{ socket: Socket; head: Buffer; sandboxId: string; generation: number }>;

type Desk = Readonly<{
  egress: EgressService | undefined;
  limits: RelayLimits;
  log: Log;
  open: Map<string, Set<Socket>>;
}>;

const UPGRADED = `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${EGRESS_PROTOCOL}\r\n\r\n`;

export function openEgressPipes(settings: Omit<Desk, "open">): EgressPipes {
  const desk: Desk = { ...settings, open: new Map() };
  return {
    open: (arrival) => openPipe(desk, arrival),
    cut: (sandboxId) => cut(desk, sandboxId),
    close: () => {
      for (const sandboxId of desk.open.keys()) cut(desk, sandboxId);
    },
  };
}

function cut({ open }: Desk, sandboxId: string): void {
  for (const socket of open.get(sandboxId) ?? []) socket.destroy();
}

function openPipe(desk: Desk, arrival: EgressArrival): void {
  const { egress, limits } = desk;
  const { socket, sandboxId } = arrival;
  if (egress === undefined) {
    throw new HttpError(404, {
      code: "egress_not_configured",
      message: "This relay has no egress service",
      next: "Set PISTIS_EGRESS_URL and PISTIS_EGRESS_KEY of the relay.",
    });
  }
  if ((desk.open.get(sandboxId)?.size ?? 0) >= limits.egressPerSandboxMax) throw tooMany();
  keep(desk, sandboxId, socket);
  reach(egress, arrival, limits.egressAnswerMs).then(
    (service) => {
      if (socket.destroyed) {
        service.destroy();
        return;
      }
      socket.write(UPGRADED);
      if (arrival.head.byteLength > 0) service.write(arrival.head);
      joinSockets(socket, service);
    },
    (error: unknown) => {
      desk.log.error({ sandboxId, reason: String(error) }, "The egress service cannot be reached");
      refuseUpgrade(socket, unreachable());
    },
  );
}

function keep({ open }: Desk, sandboxId: string, socket: Socket): void {
  const own = open.get(sandboxId) ?? new Set();
  open.set(sandboxId, own.add(socket));
  socket.once("close", () => {
    own.delete(socket);
    if (own.size === 0 && open.get(sandboxId) === own) open.delete(sandboxId);
  });
}

function unreachable(): HttpError {
  return new HttpError(503, {
    code: "egress_unreachable",
    message: "The egress service does not answer",
    next: "See that it runs, and that it and the relay have the same PISTIS_EGRESS_KEY.",
  });
}

/** Resolves with a connection that the egress service took for this sandbox's. */
function reach({ address, key }: EgressService, arrival: EgressArrival, answerMs: number): Promise<Socket> {
  const { sandboxId, generation } = arrival;
  const greeting: EgressGreeting = { key, sandboxId, generation };
  return new Promise((resolve, reject) => {
    const service = connect({ ...address, allowHalfOpen: true, noDelay: true });
    const deadline = setTimeout(() => service.destroy(new Error(`No answer within ${answerMs} ms`)), answerMs);
    let answer = Buffer.alloc(0);
    const onData = (bytes: Buffer) => {
      answer = Buffer.concat([answer, bytes]);
      if (answer.byteLength < GREETING_TAKEN.length) return;
      clearTimeout(deadline);
      service.off("data", onData).off("close", onClose).pause();
      // It may go on at once, with a refusal.
      const rest = answer.subarray(GREETING_TAKEN.length);
      if (rest.byteLength > 0) service.unshift(rest);
      if (answer.toString("latin1").startsWith(GREETING_TAKEN)) resolve(service);
      else reject(new Error("It answers something else than an egress service"));
    };
    const onClose = () => {
      clearTimeout(deadline);
      reject(new Error("It closed the connection"));
    };
    service.on("error", reject).on("data", onData).on("close", onClose);
    service.write(`${JSON.stringify(greeting)}\n`);
  });
}
