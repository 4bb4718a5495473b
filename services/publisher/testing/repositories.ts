// Real repositories for tests, in folders of their own.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const IDENTITY = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];

export function tempFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), "pistis-publisher-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export function git(folder: string, ...args: string[]): string {
  return execFileSync("git", ["-C", folder, ...IDENTITY, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
  }).trim();
}

export function newRepository(path: string, ...flags: string[]): string {
  mkdirSync(path, { recursive: true });
  git(path, "init", "-q", "-b", "main", ...flags);
  return path;
}

export function put(folder: string, files: { [path: string]: string }): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

/** Answers the commit. */
export function commit(folder: string, files: { [path: string]: string }, message = "change"): string {
  put(folder, files);
  git(folder, "add", "-A");
  git(folder, "commit", "-q", "--allow-empty", "-m", message);
  return git(folder, "rev-parse", "HEAD");
}
