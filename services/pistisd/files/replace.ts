// Writing a file: to the side first, then renamed, so that nobody ever sees half of it.
import { randomBytes } from "node:crypto";
import { fchmodSync, lstatSync, openSync, readlinkSync, renameSync, rmSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";
import { WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { refusalOf, type Workspace } from "./workspace.ts";

export type Replacement = Readonly<{
  descriptor: number;
  created: boolean;
  /** Puts the new content in the file's place. */
  commit: () => void;
  /** Leaves no trace. To be called in any case; after `commit` it only releases. */
  release: () => void;
}>;

const LINKS_MAX = 20;
const NEW_FILE_MODE = 0o644;

/** An existing file keeps its mode unless `mode` is given; a link is followed, inside the workspace. */
export function openReplacement(workspace: Workspace, path: string, mode: number | undefined): Replacement {
  const target = followLinks(workspace, path);
  const folder = workspace.openParent(target);
  const place = `${folder.at}/${folder.name}`;
  const aside = `${folder.at}/.pistis-${randomBytes(8).toString("hex")}.tmp`;
  try {
    const existing = statOrNothing(place);
    if (existing !== undefined && !existing.isFile())
      throw new Refusal(WireCode.notAFile, `${path} is no regular file`);
    const descriptor = openSync(aside, "wx", 0o600);
    fchmodSync(descriptor, mode ?? (existing === undefined ? NEW_FILE_MODE : existing.mode & 0o7777));
    return {
      descriptor,
      created: existing === undefined,
      commit: () => {
        step("pistisd.file.written");
        renameSync(aside, place);
        step("pistisd.file.replaced");
      },
      release: () => {
        rmSync(aside, { force: true });
        folder.close();
      },
    };
  } catch (error) {
    folder.close();
    throw refusalOf(error, path);
  }
}

/** Where a path ends when its last part is a link. The folders on the way are checked when they are opened. */
function followLinks(workspace: Workspace, path: string): string {
  let current = resolve(workspace.root, path);
  for (let links = 0; links < LINKS_MAX; links++) {
    if (statOrNothing(current)?.isSymbolicLink() !== true) return current;
    current = resolve(dirname(current), readlinkSync(current));
  }
  throw new Refusal(WireCode.notFound, `${path} is a link that leads in a circle`);
}

function statOrNothing(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOTDIR" || error.code === "ELOOP"))
      return undefined;
    throw error;
  }
}
