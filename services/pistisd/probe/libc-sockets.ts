// Sockets with the kernel's own error numbers. The runtime calls every connection that fails "refused", and whether
// somebody refused or nothing was there to leave by is what a probe is about.
import { dlopen, ptr, read } from "bun:ffi";

const AF_UNSPEC_BYTES = 128;
const SOCK_NONBLOCK_CLOEXEC = 0o2004000;
const SOL_SOCKET = 1;
const SO_ERROR = 4;
const POLLFD_BYTES = 8;
/** A peer that is gone is an error number, not a signal. */
const MSG_NOSIGNAL = 0x4000;

export const SocketType = { stream: 1, datagram: 2 } as const;
export const POLLIN = 1;
export const POLLOUT = 4;

export type Ready = Readonly<{ descriptor: number; events: number }>;

export type Sockets = ReturnType<typeof openSockets>;

export function openSockets() {
  const { symbols: libc } = dlopen("libc.so.6", {
    socket: { args: ["int", "int", "int"], returns: "int" },
    connect: { args: ["int", "ptr", "int"], returns: "int" },
    poll: { args: ["ptr", "u64", "int"], returns: "int" },
    getsockopt: { args: ["int", "int", "int", "ptr", "ptr"], returns: "int" },
    send: { args: ["int", "ptr", "u64", "int"], returns: "int" },
    recv: { args: ["int", "ptr", "u64", "int"], returns: "int" },
    __errno_location: { args: [], returns: "ptr" },
  });
  const errno = () => read.i32(libc.__errno_location(), 0);
  const numberOrError = (result: number) => (result < 0 ? -errno() : result);
  return {
    /** A descriptor, or an error number below zero. As all calls here: none of them waits but `poll`. */
    open: (family: number, type: number) => numberOrError(libc.socket(family, type | SOCK_NONBLOCK_CLOEXEC, 0)),
    connect: (descriptor: number, address: Uint8Array) =>
      numberOrError(libc.connect(descriptor, ptr(padded(address)), address.byteLength)),
    /** 0 when the connection stands. */
    connectionError: (descriptor: number) => {
      const error = new Int32Array(1);
      libc.getsockopt(descriptor, SOL_SOCKET, SO_ERROR, ptr(error), ptr(new Uint32Array([4])));
      return error[0] ?? 0;
    },
    send: (descriptor: number, bytes: Uint8Array) =>
      numberOrError(libc.send(descriptor, ptr(bytes), bytes.byteLength, MSG_NOSIGNAL)),
    receive: (descriptor: number, into: Uint8Array) =>
      numberOrError(libc.recv(descriptor, ptr(into), into.byteLength, 0)),
    /** Those that are ready, at the latest after `timeoutMs`. */
    poll: (waiting: readonly Ready[], timeoutMs: number) => {
      const list = new DataView(new ArrayBuffer(Math.max(1, waiting.length) * POLLFD_BYTES));
      for (const [index, { descriptor, events }] of waiting.entries()) {
        list.setInt32(index * POLLFD_BYTES, descriptor, true);
        list.setInt16(index * POLLFD_BYTES + 4, events, true);
      }
      libc.poll(ptr(list), waiting.length, Math.max(0, Math.ceil(timeoutMs)));
      return new Set(
        waiting.flatMap(({ descriptor }, index) =>
          list.getInt16(index * POLLFD_BYTES + 6, true) === 0 ? [] : [descriptor],
        ),
      );
    },
  };
}

/** The call reads as much as the largest address there is may need. */
function padded(address: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(AF_UNSPEC_BYTES);
  bytes.set(address);
  return bytes;
}
