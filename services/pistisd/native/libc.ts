import { dlopen, ptr } from "bun:ffi";

export type Libc = ReturnType<typeof openLibc>;

/** The calls to the C library that Node's API lacks. */
export function openLibc() {
  const { symbols } = dlopen("libc.so.6", {
    pipe2: { args: ["ptr", "int"], returns: "int" },
    fcntl: { args: ["int", "int", "u64"], returns: "int" },
    read: { args: ["int", "ptr", "u64"], returns: "int" },
    ioctl: { args: ["int", "u64", "ptr"], returns: "int" },
    prctl: { args: ["int", "u64", "u64", "u64", "u64"], returns: "int" },
    prlimit: { args: ["int", "int", "u64", "u64"], returns: "int" },
    syscall: { args: ["u64", "u64", "u64", "ptr"], returns: "int" },
    waitpid: { args: ["int", "ptr", "int"], returns: "int" },
  });
  return symbols;
}

export function addressOf(view: ArrayBufferView): number {
  return ptr(view);
}
