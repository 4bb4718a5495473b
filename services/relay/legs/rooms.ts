// Where a sandbox meets its server-side peers. The sandbox has one leg at most; each peer has a channel
// number, which the relay writes into the header of what it passes on. It reads nothing else.
//
// Legs are compared by identity: whatever an older leg of a sandbox still does changes nothing.
import type { Duplex } from "node:stream";
import type { RawData, WebSocket } from "ws";
import { FRAME_HEADER_BYTES, Kind, writeFrame } from "#schemas/wire/frame.ts";
import { CloseCode, type SandboxStatus } from "#schemas/wire/relay-http.ts";
import type { Log } from "#shared/service/log.ts";
import type { RelayLimits } from "../limits.ts";
import { checkLife, closeLeg, isTimely, type Leg, openLeg, passOn, send } from "./leg.ts";
import { type Crowd, newCrowd, newTurns } from "./turns.ts";

type SandboxLeg = { leg: Leg; bootId: string; generation: number; lateFrames: number };

type Room = {
  sandboxId: string;
  generation: number;
  sandbox: SandboxLeg | undefined;
  peers: Map<number, Leg>;
  lastChannel: number;
};

export type Rooms = {
  readonly limits: RelayLimits;
  readonly log: Log;
  readonly rooms: Map<string, Room>;
  readonly legs: Set<Leg>;
  readonly crowd: Crowd;
};

const NOTHING = new Uint8Array(0);
const CHANNEL_OFFSET = 1;
const CHANNEL_MAX = 0xffffffff;

export function openRooms(limits: RelayLimits, log: Log): Rooms {
  return { limits, log, rooms: new Map(), legs: new Set(), crowd: newCrowd() };
}

/** What the relay tells of a sandbox; `generation` is used when no leg of it is there. */
export function statusOf(rooms: Rooms, sandboxId: string, generation: number): SandboxStatus {
  const sandbox = rooms.rooms.get(sandboxId)?.sandbox;
  if (sandbox === undefined) return { online: false, bootId: null, generation };
  return { online: true, bootId: sandbox.bootId, generation: sandbox.generation };
}

export function hasRoomForPeer(rooms: Rooms, sandboxId: string): boolean {
  return (rooms.rooms.get(sandboxId)?.peers.size ?? 0) < rooms.limits.serverLegsMax;
}

type Arrival = Readonly<{ ws: WebSocket; socket: Duplex; sandboxId: string; generation: number }>;

/** The sandbox's leg arrives; an older one of the same sandbox has to go. */
export function enterSandbox(rooms: Rooms, arrival: Arrival & { bootId: string }): void {
  const room = roomOf(rooms, arrival);
  if (room.sandbox !== undefined) closeLeg(room.sandbox.leg, CloseCode.replaced, "A newer connection took over");
  const leg = keepLeg(rooms, arrival);
  const sandbox: SandboxLeg = { leg, bootId: arrival.bootId, generation: arrival.generation, lateFrames: 0 };
  room.sandbox = sandbox;
  leg.ws.on("message", (data, isBinary) => fromSandbox(rooms, room, sandbox, frameOf(data, isBinary)));
  leg.ws.on("close", () => leaveSandbox(rooms, room, sandbox));
  for (const channel of room.peers.keys()) send(leg, writeFrame(Kind.open, channel, NOTHING));
  tellStatus(rooms, room);
  rooms.log.info({ sandboxId: room.sandboxId, generation: room.generation }, "A sandbox connected");
}

/** A server-side peer arrives and gets a channel of its own. */
export function enterPeer(rooms: Rooms, arrival: Arrival): void {
  const room = roomOf(rooms, arrival);
  const leg = keepLeg(rooms, arrival);
  const channel = freeChannel(room);
  room.peers.set(channel, leg);
  leg.ws.on("message", (data, isBinary) => fromPeer(room, channel, leg, frameOf(data, isBinary)));
  leg.ws.on("close", () => leavePeer(rooms, room, channel));
  send(leg, statusFrame(rooms, room));
  if (room.sandbox !== undefined) send(room.sandbox.leg, writeFrame(Kind.open, channel, NOTHING));
}

/** Closes the sandbox's leg, e.g. because its pass was replaced. */
export function expelSandbox(rooms: Rooms, sandboxId: string, code: 4001 | 4002): void {
  const room = rooms.rooms.get(sandboxId);
  if (room?.sandbox === undefined) return;
  closeLeg(room.sandbox.leg, code, "This pass is not valid any more");
  leaveSandbox(rooms, room, room.sandbox);
}

/** Closes every leg of a sandbox that is gone for good. */
export function closeRoom(rooms: Rooms, sandboxId: string): void {
  const room = rooms.rooms.get(sandboxId);
  if (room === undefined) return;
  const peers = [...room.peers.values()];
  expelSandbox(rooms, sandboxId, CloseCode.refused);
  for (const peer of peers) closeLeg(peer, CloseCode.refused, "The sandbox is gone");
}

export function checkLives(rooms: Rooms): void {
  for (const leg of rooms.legs) checkLife(leg);
}

/** Says goodbye to every leg, as a restart does; resolves when all are gone. */
export async function closeRooms(rooms: Rooms): Promise<void> {
  const legs = [...rooms.legs];
  const gone = legs.map((leg) => new Promise<void>((resolve) => leg.ws.once("close", () => resolve())));
  for (const leg of legs) closeLeg(leg, 1001, "The relay is stopping");
  await Promise.all(gone);
}

function roomOf(rooms: Rooms, { sandboxId, generation }: Arrival): Room {
  const known = rooms.rooms.get(sandboxId);
  const room = known ?? { sandboxId, generation, sandbox: undefined, peers: new Map(), lastChannel: 0 };
  room.generation = generation;
  if (known === undefined) rooms.rooms.set(sandboxId, room);
  return room;
}

function keepLeg(rooms: Rooms, { ws, socket, sandboxId }: Arrival): Leg {
  const leg = openLeg(ws, socket, rooms.limits, newTurns(rooms.limits, { sandboxId, crowd: rooms.crowd }));
  rooms.legs.add(leg);
  ws.on("close", () => rooms.legs.delete(leg));
  ws.on("error", (error) => rooms.log.warn({ sandboxId, reason: error.message }, "A connection broke the protocol"));
  return leg;
}

function freeChannel(room: Room): number {
  do room.lastChannel = room.lastChannel >= CHANNEL_MAX ? 1 : room.lastChannel + 1;
  while (room.peers.has(room.lastChannel));
  return room.lastChannel;
}

function leaveSandbox(rooms: Rooms, room: Room, sandbox: SandboxLeg): void {
  if (room.sandbox !== sandbox) return;
  room.sandbox = undefined;
  tellStatus(rooms, room);
  forgetEmpty(rooms, room);
  rooms.log.info({ sandboxId: room.sandboxId }, "A sandbox's connection ended");
}

function leavePeer(rooms: Rooms, room: Room, channel: number): void {
  room.peers.delete(channel);
  if (room.sandbox !== undefined) {
    room.sandbox.lateFrames = 0;
    send(room.sandbox.leg, writeFrame(Kind.close, channel, NOTHING));
  }
  forgetEmpty(rooms, room);
}

function forgetEmpty(rooms: Rooms, room: Room): void {
  if (room.sandbox === undefined && room.peers.size === 0) rooms.rooms.delete(room.sandboxId);
}

function tellStatus(rooms: Rooms, room: Room): void {
  const frame = statusFrame(rooms, room);
  for (const peer of room.peers.values()) send(peer, frame);
}

function statusFrame(rooms: Rooms, room: Room): Uint8Array {
  const status = statusOf(rooms, room.sandboxId, room.generation);
  return writeFrame(Kind.status, 0, Buffer.from(JSON.stringify(status)));
}

/** A well-formed frame that an endpoint may send, else undefined. Its payload is not looked at. */
function frameOf(data: RawData, isBinary: boolean): Buffer | undefined {
  if (!isBinary || !Buffer.isBuffer(data) || data.byteLength < FRAME_HEADER_BYTES) return undefined;
  const kind = data[0];
  return kind === Kind.message || kind === Kind.data || kind === Kind.credit ? data : undefined;
}

function fromSandbox(rooms: Rooms, room: Room, sandbox: SandboxLeg, frame: Buffer | undefined): void {
  if (room.sandbox !== sandbox || !isTimely(sandbox.leg)) return;
  if (frame === undefined) {
    breach(rooms, room, sandbox, "a frame of a kind that a sandbox cannot send");
    return;
  }
  const channel = frame.readUInt32BE(CHANNEL_OFFSET);
  const peer = room.peers.get(channel);
  if (peer === undefined) {
    lateFrame(rooms, room, sandbox, channel);
    return;
  }
  frame.writeUInt32BE(0, CHANNEL_OFFSET);
  passOn(sandbox.leg, peer, frame);
}

/** The sandbox cannot know yet that a channel was closed, so a number of frames to it are dropped. */
function lateFrame(rooms: Rooms, room: Room, sandbox: SandboxLeg, channel: number): void {
  const wasOpen = channel > 0 && channel <= room.lastChannel;
  sandbox.lateFrames += 1;
  if (wasOpen && sandbox.lateFrames <= rooms.limits.lateFramesMax) return;
  breach(rooms, room, sandbox, wasOpen ? "frames without end for a closed channel" : "a frame for no channel");
}

function breach(rooms: Rooms, room: Room, sandbox: SandboxLeg, what: string): void {
  rooms.log.warn({ sandboxId: room.sandboxId, what }, "A sandbox broke the protocol");
  closeLeg(sandbox.leg, CloseCode.protocol, `Sent ${what}`);
  leaveSandbox(rooms, room, sandbox);
}

function fromPeer(room: Room, channel: number, leg: Leg, frame: Buffer | undefined): void {
  if (!isTimely(leg)) return;
  if (frame === undefined || frame.readUInt32BE(CHANNEL_OFFSET) !== 0) {
    closeLeg(leg, CloseCode.protocol, "Sent a frame that a server-side peer cannot send");
    return;
  }
  if (room.sandbox === undefined) return;
  frame.writeUInt32BE(channel, CHANNEL_OFFSET);
  passOn(leg, room.sandbox.leg, frame);
}
