// Where the server unpacks anything at all. What comes out of a sandbox is unpacked nowhere; whoever adds a place has to say
// here whose bytes they are and what bounds them, beside a bomb of its own.
import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";

const ROOT = join(import.meta.dirname, "../..");
const UNPACKS = /node:zlib|DecompressionStream|\b(gunzip|inflate|unzip|brotliDecompress|zstdDecompress)\w*\(/;
/** Inflates packed bodies by itself, up to its limit. */
const EXPRESS_BODY = /express\.(json|text|raw|urlencoded)\(/;
const WEB_SOCKETS = /new (WebSocketServer|WebSocket)\(/;

/** Snapshots of sessions, written by the server itself into its database, with a bound on what comes out. */
const MAY_UNPACK = ["shared/database/snapshots.ts"];
/** People with a token; what comes out is bounded by the same limit as what goes in. */
const MAY_INFLATE = ["services/gateway/http/mount.ts"];

describe("what the server unpacks", () => {
  it("is nothing that came out of a sandbox", async () => {
    expect(await filesWith(UNPACKS)).to.deep.equal(MAY_UNPACK);
    expect(await filesWith(EXPRESS_BODY)).to.deep.equal(MAY_INFLATE);
  });

  it("is no frame of a WebSocket: compression is off wherever the server opens or takes one", async () => {
    const files = await filesWith(WEB_SOCKETS);
    expect(files).to.deep.equal(["services/relay/http/endpoints.ts", "shared/sandbox-link/socket.ts"]);
    for (const file of files)
      expect(await readFile(join(ROOT, file), "utf8"), file).to.contain("perMessageDeflate: false");
  });
});

/** Of the server's own source: neither tests nor what runs in the sandbox. */
async function filesWith(pattern: RegExp): Promise<string[]> {
  const found: string[] = [];
  for await (const file of glob("{services,shared}/**/*.ts", { cwd: ROOT })) {
    if (/\.(test|contract)\.ts$|\/testing\/|\/tests\/|^services\/pistisd\//.test(file)) continue;
    if (pattern.test(await readFile(join(ROOT, file), "utf8"))) found.push(file);
  }
  return found.sort();
}
