// The few parts of Bun's own API that the compiled daemon uses; the package with Bun's full types would
// change the types of Node's globals for the whole repository.
declare module "bun:ffi" {
  type Argument = "int" | "ptr" | "u64";
  export function dlopen<Names extends string>(
    library: string,
    symbols: Record<Names, { args: Argument[]; returns: "int" | "ptr" }>,
  ): { symbols: Record<Names, (...values: (number | bigint)[]) => number> };
  export function ptr(view: ArrayBufferView): number;
  export const read: { i32: (address: number, offset: number) => number };
}

declare namespace Bun {
  function spawn(options: {
    cmd: string[];
    cwd: string;
    env: Record<string, string>;
    stdio: ["ignore", number, number];
    detached: boolean;
    onExit: (subprocess: unknown, exitCode: number | null, signal: NodeJS.Signals | number | null) => void;
  }): { pid: number };
}
