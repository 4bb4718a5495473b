// How a call ends that the sandbox, or the way to it, could not serve as asked.
import { expect } from "chai";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { World } from "../testing/world.ts";

describe("a call", () => {
  let world: World;
  beforeEach(() => {
    world = new World();
  });
  afterEach(() => world.close());

  /** A session with one message, whose brain has links that do `otherwise`. */
  async function begun(text: string, otherwise: Partial<SandboxLink>): Promise<string> {
    await world.startBrain("brain-a", { openLink: (request) => ({ ...world.openLink(request), ...otherwise }) });
    const session = await world.createSession();
    await world.post(session, text);
    return session;
  }

  const broken = () => Promise.reject(new Refusal("internal", `EIO: i/o error${"!".repeat(3_900)}`));

  for (const [name, text, otherwise] of [
    ["command", "$ make", { exec: broken }],
    ["change of a file", "> write a.txt\n```\na\n```", { writeFile: broken }],
  ] as const) {
    it(`I5: is told as unknown when pistisd broke down over a ${name}, which may have happened`, async () => {
      const session = await begun(text, otherwise);
      const { reason, text: told } = (await world.first(session, "ToolOutcomeUnknown")).data;
      expect(reason).to.equal("sandbox_internal");
      expect(told).to.contain("may have partly or fully run").and.contain("EIO");
      await world.first(session, "TurnEnded");
    });
  }

  it("has failed when pistisd broke down over what only reads", async () => {
    const session = await begun("> list .", { listFiles: broken });
    const { outcome } = (await world.first(session, "ToolDone")).data;
    expect(outcome).to.have.nested.property("failure.code", "internal");
  });

  it("has failed, and says to read again, when a file changed while it was read", async () => {
    const changed = new Retryable("changed_while_read", "It ended early", { retryAfterMs: 1, next: "Read it again." });
    const readFile: SandboxLink["readFile"] = () => ({
      info: Promise.resolve({ size: 10, from: 0, length: 10, mode: 0o644 }),
      // biome-ignore lint/correctness/useYield: it fails before its first bytes
      bytes: (async function* () {
        throw changed;
      })(),
    });
    const session = await begun("> read a.txt", { readFile });
    const { outcome, text } = (await world.first(session, "ToolDone")).data;
    expect(outcome).to.have.nested.property("failure.code", "changed_while_read");
    expect(text).to.equal("Failed (changed_while_read): It ended early\nRead it again.");
  });
});
