import { closeSync, writeSync } from "node:fs";
import { WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Operation, RequestContext } from "../channel/operation.ts";
import type { StreamReceiver } from "../channel/receiver.ts";
import { FILE_BYTES_MAX } from "../limits.ts";
import { openReplacement, type Replacement } from "./replace.ts";
import { refusalOf, type Workspace } from "./workspace.ts";

export function fileWrite(workspace: Workspace): Operation<"fileWrite"> {
  return async (request, channel: RequestContext) => {
    const receiver = channel.receiver(request.stream);
    try {
      if (request.size > FILE_BYTES_MAX)
        throw new Refusal(WireCode.tooLarge, `A file has at most ${FILE_BYTES_MAX} bytes`);
      const replacement = openReplacement(workspace, request.path, request.mode);
      try {
        await receive(replacement, receiver, request.size);
        channel.checkEpoch();
        replacement.commit();
        return { size: request.size, created: replacement.created };
      } finally {
        closeSync(replacement.descriptor);
        replacement.release();
      }
    } catch (error) {
      throw refusalOf(error, request.path);
    } finally {
      receiver.fail();
    }
  };
}

async function receive(replacement: Replacement, receiver: StreamReceiver, size: number): Promise<void> {
  let received = 0;
  for await (const bytes of receiver.bytes()) {
    if (received + bytes.byteLength > size) throw wrongSize(size, "more");
    for (let written = 0; written < bytes.byteLength; ) {
      // Not by a thread: there may be none to be had when a command has used up all processes.
      const bytesWritten = writeSync(replacement.descriptor, bytes, written, bytes.byteLength - written, received);
      written += bytesWritten;
      received += bytesWritten;
    }
  }
  if (received < size) throw wrongSize(size, "fewer");
}

function wrongSize(size: number, how: "more" | "fewer"): Refusal {
  return new Refusal(WireCode.badRequest, `The stream has ${how} than the ${size} bytes that were announced`);
}
