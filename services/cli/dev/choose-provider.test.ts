import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { chooseProvider } from "./choose-provider.ts";

describe("where pistis dev runs sandboxes", () => {
  let folder: string;
  let server: Server | undefined;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-choose-"));
  });
  afterEach(async () => {
    server?.closeAllConnections();
    server?.close();
    server = undefined;
    await rm(folder, { recursive: true, force: true });
  });

  const chosen = (given: object = {}) => {
    const host = `unix://${join(folder, "docker.sock")}`;
    return chooseProvider(pistisConfig.parse({ sandboxes: { docker: { host }, ...given } }).sandboxes);
  };
  /** An engine with these images alone. */
  const engineWith = async (...images: string[]) => {
    const known = ["/v1.41/_ping", ...images.map((image) => `/v1.41/images/${image}/json`)];
    server = createServer(({ url = "" }, answer) => {
      answer.statusCode = known.includes(url) ? 200 : 404;
      answer.end("{}");
    }).listen(join(folder, "docker.sock"));
    await once(server, "listening");
  };

  it("is Docker when its engine answers and has the image", async () => {
    await engineWith("pistis/sandbox", "team/own:1");
    expect(await chosen()).to.deep.equal({ kind: "docker", why: "image pistis/sandbox" });
    expect(await chosen({ image: "team/own:1" })).to.deep.equal({ kind: "docker", why: "image team/own:1" });
  });

  it("is this machine when the engine lacks the image, and says how to get it", async () => {
    await engineWith();
    const { kind, why } = await chosen();
    expect(kind).to.equal("local");
    expect(why).to.contain("no image pistis/sandbox").and.to.contain("npm run images");
  });

  it("is this machine when no engine answers", async () => {
    const { kind, why } = await chosen();
    expect(kind).to.equal("local");
    expect(why).to.contain("does not answer").and.to.contain("ENOENT");
  });

  it("is what is set, and then nobody looks", async () => {
    expect(await chosen({ provider: "docker" })).to.deep.equal({ kind: "docker", why: "as set" });
    expect(await chosen({ provider: "local" })).to.deep.equal({ kind: "local", why: "as set" });
  });
});
