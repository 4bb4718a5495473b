// The user of its own that a sandbox runs as. Where the engine maps no users, a number in a container is the same number
// on the host: then each sandbox gets one that nobody else has, so that limits per user are not shared either.
import { sha256 } from "#shared/ids/ids.ts";
import type { Docker } from "./docker.ts";
import type { PreparedImage } from "./image/prepare-image.ts";

/** Above every range that distributions, systemd and subuid hand out. */
const UID_FIRST = 1_900_000_000;
const UID_COUNT = 100_000_000;
/** Where users are mapped, an engine maps the lower 65,536. */
const MAPPED_UID = 1_000;

export const GUEST_NAME = "pistis";
export const GUEST_HOME = "/home/pistis";

/** The same for a sandbox at each start. */
export function guestUid({ facts, installId }: Pick<Docker, "facts" | "installId">, sandboxId: string): number {
  if (facts.mapsUsers) return MAPPED_UID;
  return UID_FIRST + (Number.parseInt(sha256(`${installId} ${sandboxId}`).slice(0, 12), 16) % UID_COUNT);
}

/** The image's users and groups with this one, in place of one of the same name or number. */
export function usersWith({ passwd, group }: Pick<PreparedImage, "passwd" | "group">, uid: number) {
  return {
    passwd: withLine(passwd, `${GUEST_NAME}:x:${uid}:${uid}:Pistis:${GUEST_HOME}:/bin/sh`, uid),
    group: withLine(group, `${GUEST_NAME}:x:${uid}:`, uid),
  };
}

function withLine(text: string, line: string, uid: number): string {
  const others = text.split("\n").filter((other) => {
    const [name = "", , id = ""] = other.split(":");
    return other !== "" && name !== GUEST_NAME && id !== String(uid);
  });
  return `${[...others, line].join("\n")}\n`;
}
