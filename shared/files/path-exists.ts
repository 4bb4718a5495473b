import { access } from "node:fs/promises";

/** Whether there is something that this process may look at; a link that leads nowhere is nothing. */
export async function pathExists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
