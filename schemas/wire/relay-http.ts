// The relay's own endpoints. Every one but the health check needs the admin key or that sandbox's own pass.
import { z } from "zod";

export const JOIN_TOKEN_LIFE_MS_MAX = 10 * 60_000;

const sandboxId = z.string().regex(/^sbx_[0-9a-z]{1,64}$/);
const generation = z.number().int().positive();

export const relayPaths = {
  health: "/healthz",
  /** POST, admin key: body `joinTokenRegistration`. Registering the same hash again changes nothing. */
  joinTokens: "/v1/join-tokens",
  /** POST, the join token as bearer: answers `joined`. */
  join: "/v1/join",
  /** WebSocket, the pass as bearer, header BOOT_ID_HEADER: the sandbox's leg. */
  connect: "/v1/connect",
  /** Upgrade to EGRESS_PROTOCOL, the pass as bearer: the sandbox's own bytes to the egress service and back. */
  egress: "/v1/egress",
  /** GET, admin key: answers `sandboxList`. */
  sandboxes: "/v1/sandboxes",
  /** GET, admin key: answers `sandboxStatus`. DELETE, admin key: the sandbox's tokens and passes work no more, its socket is closed. */
  sandbox: (id: string) => `/v1/sandboxes/${id}`,
  /** WebSocket, admin key: a server-side leg. */
  attach: (id: string) => `/v1/sandboxes/${id}/attach`,
} as const;

/**
 * What a sandbox's own Unix socket is called, in the one folder that the relay has for them all. Every sandbox may see that
 * folder, but not list it, and the name cannot be guessed: it is the random part of its id.
 */
export function relaySocketName(id: string): string {
  return id.slice("sbx_".length);
}

export const BOOT_ID_HEADER = "pistis-boot-id";
/** After the upgrade the connection is one to a forward proxy (CONNECT and plain HTTP). */
export const EGRESS_PROTOCOL = "pistis-egress";

export const joinTokenRegistration = z.strictObject({
  sandboxId,
  generation,
  tokenHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .describe("SHA-256 of the token; the relay never stores the token itself"),
  expiresAt: z.iso.datetime().describe("At most ten minutes away"),
});

export const joined = z.strictObject({ sandboxId, pass: z.string().min(20).max(200) });

export const sandboxList = z.strictObject({
  sandboxes: z.array(z.strictObject({ sandboxId, generation, online: z.boolean(), bootId: z.string().nullable() })),
});

/** Payload of a `status` frame, and what the relay answers about one sandbox. */
export const sandboxStatus = z.strictObject({
  online: z.boolean(),
  bootId: z.string().max(100).nullable(),
  generation,
});

/** WebSocket close codes of our own. Any other code means: reconnect. */
export const CloseCode = {
  /** The pass or key is not valid (any more), or the sandbox is unknown: do not come back. */
  refused: 4001,
  /** A newer connection of the same sandbox took this one's place: do not come back. */
  replaced: 4002,
  /** A frame broke the protocol. */
  protocol: 4003,
} as const;

export type JoinTokenRegistration = z.output<typeof joinTokenRegistration>;
export type SandboxStatus = z.output<typeof sandboxStatus>;
