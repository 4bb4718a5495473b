// The frames of one connection to the relay, sorted by channel.

import { FrameError, Kind, readFrame } from "#schemas/wire/frame.ts";
import type { Log } from "#shared/service/log.ts";
import { CHANNELS_MAX } from "../limits.ts";
import { Channel, type ChannelContext } from "./channel.ts";

export type Channels = Readonly<{
  onFrame: (bytes: Uint8Array) => void;
  /** The connection is gone, and with it every peer. */
  close: () => void;
}>;

export function openChannels(context: ChannelContext): Channels {
  const open = new Map<number, Channel>();
  const onFrame = (bytes: Uint8Array) => {
    const { kind, channel: number, payload } = readFrame(bytes);
    if (kind === Kind.open) return openChannel(open, number, context);
    const channel = open.get(number);
    // Frames may still be under way to a peer that has just gone.
    if (channel === undefined) return;
    if (kind === Kind.message) channel.onMessage(payload);
    else if (kind === Kind.data) channel.onData(payload);
    else if (kind === Kind.credit) channel.onCredit(payload);
    else if (kind === Kind.close) closeChannel(open, number, channel);
  };
  return {
    onFrame: (bytes) => dropBadFrames(context.log, () => onFrame(bytes)),
    close: () => {
      for (const [number, channel] of open) closeChannel(open, number, channel);
    },
  };
}

function openChannel(open: Map<number, Channel>, number: number, context: ChannelContext): void {
  open.get(number)?.close();
  open.delete(number);
  if (open.size < CHANNELS_MAX) open.set(number, new Channel(number, context));
  else context.log.warn({ number }, "Too many peers: one more was not taken");
}

function closeChannel(open: Map<number, Channel>, number: number, channel: Channel): void {
  open.delete(number);
  channel.close();
}

function dropBadFrames(log: Log, handle: () => void): void {
  try {
    handle();
  } catch (error) {
    if (!(error instanceof FrameError)) throw error;
    log.warn({ problem: error.message }, "A frame was dropped");
  }
}
