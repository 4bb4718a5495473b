// The files that a sandbox gets before it starts.
import { JOIN_TOKEN_FILE, PISTISD_STATE } from "./container-body.ts";
import { type SmallEntry, smallTar } from "./engine/tar.ts";
import { GUEST_HOME, usersWith } from "./guest-user.ts";
import type { PreparedImage } from "./image/prepare-image.ts";

/** For a container that has never run: its user, the folders that belong to it, and the join token. */
export function wholeGuestFiles(image: PreparedImage, uid: number, joinToken: string): Buffer {
  const { passwd, group } = usersWith(image, uid);
  return smallTar([
    { path: "etc/passwd", mode: 0o644, uid: 0, content: passwd },
    { path: "etc/group", mode: 0o644, uid: 0, content: group },
    // An image that is not more than a program and a shell may have none.
    { path: "tmp", mode: 0o1777, uid: 0 },
    folder("workspace", 0o755, uid),
    folder(GUEST_HOME, 0o755, uid),
    folder(PISTISD_STATE, 0o700, uid),
    token(uid, joinToken),
  ]);
}

/** For a start after the first: all else is as the sandbox left it. */
export function tokenFile(uid: number, joinToken: string): Buffer {
  return smallTar([token(uid, joinToken)]);
}

function token(uid: number, joinToken: string): SmallEntry {
  return { path: relative(JOIN_TOKEN_FILE), mode: 0o600, uid, content: joinToken };
}

function folder(path: string, mode: number, uid: number): SmallEntry {
  return { path: relative(path), mode, uid };
}

function relative(path: string): string {
  return path.replace(/^\//, "");
}
