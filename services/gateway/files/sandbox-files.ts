// What comes out of a session's sandbox: listings, files, a command's output. The sandbox is hostile, so all of
// it is limited by the server's own count, and nothing is opened, rendered or run here.
import type { ServerResponse } from "node:http";
import { FILE_BYTES_MAX, type FileListing } from "#schemas/api/files.ts";
import type { SessionDetail } from "#schemas/api/session.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { unlessAborted } from "#shared/errors/unless-aborted.ts";
import { type OpenLink, type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import type { GatewayLimits } from "../limits.ts";
import { sendBytes } from "./send-bytes.ts";

const LIST_ENTRIES_MAX = 5_000;

export type SandboxFiles = Readonly<{ openLink: OpenLink; limits: GatewayLimits; transfers: { open: number } }>;

type Range = Readonly<{ from: number; length?: number | undefined }>;

export function listFiles(
  files: SandboxFiles,
  session: SessionDetail,
  request: { path: string; depth: number },
): Promise<FileListing> {
  return withLink(files, session, async (link, signal) => {
    const listing = link.listFiles({ ...request, entriesMax: LIST_ENTRIES_MAX });
    const { entries, truncated } = await unlessAborted(listing, signal);
    return { entries: entries.slice(0, LIST_ENTRIES_MAX), truncated: truncated || entries.length > LIST_ENTRIES_MAX };
  });
}

/** Answers with the bytes. Throws a Refusal before the first of them, and cuts the connection after. */
export function sendFile(
  files: SandboxFiles,
  session: SessionDetail,
  { path, from, length }: Range & { path: string },
  response: ServerResponse,
): Promise<void> {
  return withLink(files, session, async (link, signal) => {
    const { info, bytes } = link.readFile(path, from, length ?? FILE_BYTES_MAX);
    const { size, length: coming } = await unlessAborted(info, signal);
    if (length === undefined && size - from > FILE_BYTES_MAX) throw tooLarge(size);
    const bytesMax = Math.min(coming, length ?? FILE_BYTES_MAX);
    const name = path.split("/").at(-1) ?? "file";
    await sendBytes(bytes, { name, bytesMax, exact: true }, response, signal);
  });
}

export function sendOutput(
  files: SandboxFiles,
  session: SessionDetail,
  { callId, from, length }: { callId: string; from: number; length: number },
  response: ServerResponse,
): Promise<void> {
  return withLink(files, session, (link, signal) => {
    const download = { name: `${callId}.out`, bytesMax: length, exact: false };
    return sendBytes(link.readOutput(callId, from, length), download, response, signal);
  });
}

/** The link is closed at the end, which also ends what was asked of it and not waited for. */
async function withLink<Result>(
  { openLink, limits, transfers }: SandboxFiles,
  session: SessionDetail,
  use: (link: SandboxLink, signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const sandboxId = sandboxOf(session);
  if (transfers.open >= limits.transfersMax) {
    const next = "Wait until a download ends.";
    throw new Refusal("too_many_streams", `${transfers.open} downloads are on their way`, { next });
  }
  transfers.open++;
  const late = new AbortController();
  const deadline = setTimeout(() => late.abort(unreachable()), limits.transferMs);
  const link = openLink({ sandboxId, role: "service" });
  try {
    await link.ready(limits.sandboxReadyMs);
    return await use(link, late.signal);
  } catch (error) {
    throw error instanceof SandboxLost ? unreachable(error) : error;
  } finally {
    clearTimeout(deadline);
    transfers.open--;
    await link.close();
  }
}

function sandboxOf({ sandbox }: SessionDetail): string {
  if (sandbox.state === "running" && sandbox.sandboxId !== null) return sandbox.sandboxId;
  const next = "Post a message that needs the sandbox: the next command starts it again.";
  throw new Refusal("sandbox_not_up", `The session's sandbox is ${sandbox.state}`, { next });
}

function unreachable(cause?: SandboxLost): Retryable {
  const next = "Try again; if it stays so, post a message: the brain finds out what became of the sandbox.";
  const message = "The session's sandbox does not answer";
  return new Retryable("sandbox_unreachable", message, { cause, next, retryAfterMs: 1_000 });
}

function tooLarge(size: number): Refusal {
  const next = "Read it in parts, with from and length.";
  return new Refusal("file_too_large", `The file has ${size} bytes, over ${FILE_BYTES_MAX}`, { next });
}
