// Who may join and who has joined. A join token is traded once for a pass; only hashes are kept.
// A newer token leaves the older pass valid until it is traded, so a restart that fails costs nothing.
import { timingSafeEqual } from "node:crypto";
import { JOIN_TOKEN_LIFE_MS_MAX, type JoinTokenRegistration } from "#schemas/wire/relay-http.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { newSecret, sha256 } from "#shared/ids/ids.ts";
import type { RelayLimits } from "../limits.ts";
import { coalesced, readState, type SandboxRecord, type TokenRecord, writeState } from "./state-file.ts";

/** What the clocks of the scheduler's and the relay's machines may differ by. */
const CLOCK_SKEW_MS = 30_000;

export type Joined = Readonly<{ sandboxId: string; pass: string; generation: number }>;

export type Passes = Readonly<{
  /** Resolves when the token's hash is on disk. Throws Refusal for what cannot be registered. */
  register: (registration: JoinTokenRegistration) => Promise<void>;
  /**
   * Burns the token on disk, then answers with a pass. `by`: the sandbox that shows it, where that is known; the token of
   * another one is not known then, and is not burnt. Throws Refusal `join_token_*`.
   */
  trade: (token: string, by?: string) => Promise<Joined>;
  /** The sandbox whose current pass this is. */
  holderOf: (pass: string) => Readonly<SandboxRecord> | undefined;
  find: (sandboxId: string) => Readonly<SandboxRecord> | undefined;
  list: () => readonly Readonly<SandboxRecord>[];
  /** Forgets the sandbox with its tokens and pass. */
  revoke: (sandboxId: string) => Promise<void>;
  noteReported: (sandboxId: string, bootId: string) => Promise<void>;
}>;

type Book = {
  limits: RelayLimits;
  now: () => number;
  save: () => Promise<void>;
  sandboxes: Map<string, SandboxRecord>;
  tokens: Map<string, { sandbox: SandboxRecord; token: TokenRecord }>;
  passes: Map<string, SandboxRecord>;
};

export async function openPasses(options: {
  stateFile: string;
  limits: RelayLimits;
  now: () => number;
}): Promise<Passes> {
  const { stateFile, limits, now } = options;
  const sandboxes = new Map((await readState(stateFile)).map((sandbox) => [sandbox.sandboxId, sandbox]));
  const write = coalesced(() => writeState(stateFile, [...sandboxes.values()]));
  const book: Book = { limits, now, save: () => saved(write()), sandboxes, tokens: new Map(), passes: new Map() };
  for (const sandbox of sandboxes.values()) enter(book, sandbox);
  return {
    register: (registration) => register(book, registration),
    trade: (token, by) => trade(book, token, by),
    holderOf: (pass) => holderOf(book, pass),
    find: (sandboxId) => sandboxes.get(sandboxId),
    list: () => [...sandboxes.values()],
    revoke: (sandboxId) => revoke(book, sandboxId),
    noteReported: (sandboxId, bootId) => noteReported(book, sandboxId, bootId),
  };
}

function enter(book: Book, sandbox: SandboxRecord): void {
  for (const token of sandbox.tokens) book.tokens.set(token.hash, { sandbox, token });
  if (sandbox.pass !== null) book.passes.set(sandbox.pass.hash, sandbox);
}

async function saved(write: Promise<void>): Promise<void> {
  await write.catch((cause: unknown) => {
    throw new Retryable("relay_state_unwritable", "The relay cannot write its state file", {
      cause,
      retryAfterMs: 1_000,
      next: "Look at the space and the rights of the folder that holds the relay's state file.",
    });
  });
}

async function register(book: Book, registration: JoinTokenRegistration): Promise<void> {
  const known = book.tokens.get(registration.tokenHash);
  if (known === undefined) accept(book, registration);
  else if (known.sandbox.sandboxId !== registration.sandboxId)
    throw refusedToken("taken", "belongs to another sandbox");
  await book.save();
}

function accept(book: Book, { sandboxId, generation, tokenHash, expiresAt }: JoinTokenRegistration): void {
  const lifeMs = Date.parse(expiresAt) - book.now();
  if (lifeMs <= 0) throw refusedToken("expired", "has expired already");
  if (lifeMs > JOIN_TOKEN_LIFE_MS_MAX + CLOCK_SKEW_MS) throw refusedToken("too_long", "would live over ten minutes");
  const sandbox = book.sandboxes.get(sandboxId) ?? admit(book, sandboxId, generation);
  if (generation < sandbox.generation) throw refusedToken("superseded", "is for an older life of its sandbox");
  makeRoom(book, sandbox);
  const token = { hash: tokenHash, generation, expiresAt, used: false };
  sandbox.generation = generation;
  sandbox.tokens.push(token);
  book.tokens.set(tokenHash, { sandbox, token });
}

function admit(book: Book, sandboxId: string, generation: number): SandboxRecord {
  if (book.sandboxes.size >= book.limits.sandboxesMax) {
    throw new Refusal("relay_full", `The relay already knows ${book.limits.sandboxesMax} sandboxes`, {
      next: "Delete sandboxes that are not needed any more.",
    });
  }
  const sandbox: SandboxRecord = { sandboxId, generation, tokens: [], pass: null, reportedBootId: null };
  book.sandboxes.set(sandboxId, sandbox);
  return sandbox;
}

/** Only a token that can never work again is forgotten: registering it again would be refused as expired. */
function makeRoom(book: Book, sandbox: SandboxRecord): void {
  if (sandbox.tokens.length < book.limits.tokensPerSandboxMax) return;
  const index = sandbox.tokens.findIndex((token) => Date.parse(token.expiresAt) <= book.now());
  if (index < 0)
    throw refusedToken("too_many", `would be one of over ${book.limits.tokensPerSandboxMax} of its sandbox`);
  for (const token of sandbox.tokens.splice(index, 1)) book.tokens.delete(token.hash);
}

async function trade(book: Book, secret: string, by: string | undefined): Promise<Joined> {
  const hash = sha256(secret);
  const found = book.tokens.get(hash);
  if (found === undefined || !sameHash(found.token.hash, hash)) throw refusedToken("unknown", "is not known");
  const { sandbox, token } = found;
  if (by !== undefined && sandbox.sandboxId !== by) throw refusedToken("unknown", "is not known");
  if (token.used) throw refusedToken("used", `of ${sandbox.sandboxId} was used before`);
  if (Date.parse(token.expiresAt) <= book.now()) throw refusedToken("expired", `of ${sandbox.sandboxId} has expired`);
  if (token.generation < sandbox.generation) throw refusedToken("superseded", `is of an older ${sandbox.sandboxId}`);
  token.used = true;
  // The token is on disk as used before any pass exists. A crash in between costs this token, which the
  // scheduler notices as a sandbox that never joins; it can never yield two passes.
  const pass = newSecret();
  const given = { hash: sha256(pass), generation: token.generation };
  const before = setPass(book, sandbox, given);
  await book.save().catch((error: unknown) => {
    if (sandbox.pass === given) setPass(book, sandbox, before);
    throw error;
  });
  return { sandboxId: sandbox.sandboxId, pass, generation: token.generation };
}

function setPass(book: Book, sandbox: SandboxRecord, pass: SandboxRecord["pass"]): SandboxRecord["pass"] {
  const before = sandbox.pass;
  if (before !== null) book.passes.delete(before.hash);
  if (pass !== null) book.passes.set(pass.hash, sandbox);
  sandbox.pass = pass;
  return before;
}

function holderOf(book: Book, pass: string): SandboxRecord | undefined {
  const hash = sha256(pass);
  const sandbox = book.passes.get(hash);
  return sandbox?.pass && sameHash(sandbox.pass.hash, hash) ? sandbox : undefined;
}

async function revoke(book: Book, sandboxId: string): Promise<void> {
  const sandbox = book.sandboxes.get(sandboxId);
  if (sandbox !== undefined) {
    setPass(book, sandbox, null);
    for (const token of sandbox.tokens) book.tokens.delete(token.hash);
    book.sandboxes.delete(sandboxId);
  }
  await book.save();
}

async function noteReported(book: Book, sandboxId: string, bootId: string): Promise<void> {
  const sandbox = book.sandboxes.get(sandboxId);
  if (sandbox === undefined || sandbox.reportedBootId === bootId) return;
  sandbox.reportedBootId = bootId;
  await book.save();
}

function refusedToken(why: string, text: string): Refusal {
  return new Refusal(`join_token_${why}`, `This join token ${text}`, {
    next: "Start the sandbox again: it gets a new join token.",
  });
}

/** Compares without telling by its duration where two hashes differ. */
export function sameHash(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));
}
