// What the provider's parts share.
import type { DockerSandboxes } from "#schemas/config/docker-sandboxes.ts";
import type { Log } from "#shared/service/log.ts";
import type { SandboxRef, SeenSandbox } from "../provider.ts";
import type { Engine } from "./engine/engine.ts";
import type { EngineFacts } from "./engine/facts.ts";
import type { PistisdFiles } from "./image/pistisd-files.ts";
import type { PreparedImage } from "./image/prepare-image.ts";

export type DockerSetting = Readonly<{
  /** Marks what belongs to this install. */
  installId: string;
  /** The relay's Unix socket. Its folder is what the sandbox sees: it should hold nothing else. */
  relaySocketFolder: string;
  /** Holds pistisd, pistisd-entry and their libraries. */
  pistisdFolder: string;
  /** What sandboxes are made of when the task names no image. */
  image: string | undefined;
  docker: DockerSandboxes;
  /** Sandboxes are stopped when the provider is closed, as in `pistis dev`. Else they go on and are found again. */
  stopAtClose: boolean;
  /** How old what belongs to no sandbox has to be until the start removes it: sweep.ts, when it is not said here. */
  abandonedAfterMs?: number;
  log: Log;
}>;

export type Docker = DockerSetting &
  Readonly<{
    engine: Engine;
    facts: EngineFacts;
    key: string;
    pistisd: () => Promise<PistisdFiles>;
    /** By the image's id. */
    prepared: Map<string, Promise<PreparedImage>>;
    /** Containers that run as far as this process knows, by their id: an end of one of these is told. */
    running: Map<string, SandboxRef>;
    watchers: Set<(ended: SeenSandbox) => void>;
    inTurn: <Result>(sandboxId: string, work: () => Promise<Result>) => Promise<Result>;
  }>;
