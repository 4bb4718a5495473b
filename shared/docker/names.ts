// What the Docker provider and docker-proxy call things on an engine. Both must agree to the letter: what the one makes
// the other lets through, and nothing else.
import { sha256 } from "#shared/ids/ids.ts";

/** The version of the Engine API that both speak: Docker 20.10 and later. */
export const API_VERSION = "1.41";

/** Stands for an install in names and labels. An engine may serve several. */
export function installKey(installId: string): string {
  return sha256(installId).slice(0, 12);
}

/** Every name of an install begins with it. */
export function namePrefix(key: string): string {
  return `pistis-${key}-`;
}

export const LABELS = {
  install: "dev.pistis.install",
  role: "dev.pistis.role",
  sandbox: "dev.pistis.sandbox",
  session: "dev.pistis.session",
  generation: "dev.pistis.generation",
  task: "dev.pistis.task",
  spec: "dev.pistis.spec",
  previous: "dev.pistis.previous",
} as const;

export const ROLES = ["sandbox", "filler", "network", "pistisd", "start"] as const;

/** Where a sandbox finds pistisd's files and the relay's socket. */
export const PISTISD_TARGET = "/opt/pistis";
export const RELAY_TARGET = "/run/pistis";
