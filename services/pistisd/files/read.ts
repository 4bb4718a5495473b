import { closeSync, readSync } from "node:fs";
import { DATA_BYTES_MAX } from "#schemas/wire/frame.ts";
import type { Operation, RequestContext } from "../channel/operation.ts";
import type { StreamSender } from "../channel/sender.ts";
import type { OpenFile, Workspace } from "./workspace.ts";

export function fileRead(workspace: Workspace): Operation<"fileRead"> {
  return async (request, channel: RequestContext) => {
    const sender = channel.sender(request.stream);
    const file = openOrClose(workspace, request.path, sender);
    const from = Math.min(request.from, file.size);
    const length = Math.min(request.length, file.size - from);
    channel.afterAnswer(() => sendFile(file, sender, from, from + length));
    return { size: file.size, from, length, mode: file.mode & 0o777 };
  };
}

function openOrClose(workspace: Workspace, path: string, sender: StreamSender): OpenFile {
  try {
    return workspace.openFile(path);
  } catch (error) {
    sender.close();
    throw error;
  }
}

function copy(from: Uint8Array, to: Uint8Array): number {
  to.set(from.subarray(0, to.byteLength));
  return to.byteLength;
}

/** A file that shrinks meanwhile ends early: the end stands where the bytes ended. */
async function sendFile(file: OpenFile, sender: StreamSender, from: number, to: number): Promise<void> {
  const buffer = new Uint8Array(Math.min(DATA_BYTES_MAX, to - from));
  let position = from;
  try {
    while (position < to) {
      const length = Math.min(await sender.room(), to - position);
      const bytesRead = readSync(file.descriptor, buffer, 0, length, position);
      if (bytesRead === 0) break;
      sender.send(position, bytesRead, (target) => copy(buffer, target));
      position += bytesRead;
    }
    sender.end(position);
  } finally {
    sender.close();
    closeSync(file.descriptor);
  }
}
