import { execFile } from "node:child_process";

/** Standard output; rejects with what the program said on standard error. */
export function run(program: string, ...args: readonly string[]): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  execFile(program, [...args], { timeout: 60_000 }, (error, stdout, stderr) => {
    if (error === null) resolve(stdout.trim());
    else reject(new Error(`${program} ${args.join(" ")}: ${stderr || error.message}`, { cause: error }));
  });
  return promise;
}
