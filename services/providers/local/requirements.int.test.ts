import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { Refusal } from "#shared/errors/errors.ts";
import { SYSTEM_PATH } from "./launch-script.ts";
import { checkRequirements } from "./requirements.ts";

describe("what the local provider needs", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-requirements-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function bubblewrapThat(script: string): Promise<string> {
    await writeFile(join(folder, "bwrap"), `#!/bin/sh\n${script}\n`);
    await chmod(join(folder, "bwrap"), 0o755);
    await chmod(folder, 0o755);
    return `${folder}:${SYSTEM_PATH}`;
  }

  async function refusal(path: string): Promise<Refusal> {
    const error = await checkRequirements(path).catch((thrown: unknown) => thrown);
    if (!(error instanceof Refusal)) throw new Error("It was not refused", { cause: error });
    return error;
  }

  it("is there on this machine", async () => {
    expect((await checkRequirements()).bubblewrap).to.match(/^\d+\.\d+/);
  });

  it("names a bubblewrap that is missing or too old, with the command that installs it", async () => {
    expect(await refusal(folder)).to.include({ code: "bubblewrap_missing", next: "apt-get install -y bubblewrap" });
    const old = await refusal(await bubblewrapThat("echo bubblewrap 0.4.1"));
    expect(old.code).to.equal("bubblewrap_too_old");
    expect(old.next).to.include("apt-get install");
  });

  it("says how to allow user namespaces where none can be made", async () => {
    const path = await bubblewrapThat(
      '[ "$1" = --version ] && { echo bubblewrap 0.9.0; exit; }; echo "bwrap: No permissions to create new namespace" >&2; exit 1',
    );
    const error = await refusal(path);
    expect(error.code).to.equal("isolation_unavailable");
    expect(error.message).to.include("No permissions");
    expect(error.next).to.include("user.max_user_namespaces").and.include("--privileged");
  });
});
