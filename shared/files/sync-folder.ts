import { open } from "node:fs/promises";

/** Makes the folder's entries durable: a file that was made or renamed in it is there after a power loss. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, "r");
  await folder.sync();
}
