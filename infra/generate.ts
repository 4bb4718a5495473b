// Writes the documents that are made from the schemas; with --check it writes nothing and fails when one of them
// is not what the schemas say.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { generatedDocuments } from "./generated-documents/documents.ts";

const root = join(import.meta.dirname, "..");
const folder = join(root, "schemas/generated");

async function main(check: boolean): Promise<number> {
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(root, "package.json"), "utf8")));
  const documents = Object.entries(generatedDocuments(version));
  if (!check) {
    await mkdir(folder, { recursive: true });
    await Promise.all(documents.map(([file, text]) => writeFile(join(folder, file), text)));
    return 0;
  }
  const stale = await staleAmong(documents);
  if (stale.length === 0) return 0;
  console.error(`Out of step with the schemas: ${stale.join(", ")}. Run \`npm run generate\` and commit the result.`);
  return 1;
}

async function staleAmong(documents: [string, string][]): Promise<string[]> {
  const checked = await Promise.all(
    documents.map(async ([file, text]) => ((await textIn(join(folder, file))) === text ? [] : [file])),
  );
  return checked.flat();
}

function textIn(file: string): Promise<string | undefined> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

process.exitCode = await main(process.argv.includes("--check"));
