import { expect } from "chai";
import { World } from "./testing/world.ts";

describe("a brain", () => {
  let world: World;
  afterEach(() => world.close());

  it("turns a message into commands in the sandbox and ends the turn", async () => {
    world = new World();
    await world.startBrain();
    const session = await world.createSession();
    await world.post(session, "$ echo hello > a.txt\n$ cat a.txt\n> say All done");
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    const types = (await world.events(session))
      .map(({ type }) => type)
      .filter((type) => !["SandboxJoined", "EgressProbed"].includes(type));
    expect(types).to.deep.equal([
      "SessionCreated",
      "MessagePosted",
      "TurnStarted",
      "SandboxNeeded",
      "ModelReplied",
      "ToolStarted",
      "ToolDone",
      "ModelReplied",
      "ToolStarted",
      "ToolDone",
      "ModelReplied",
      "TurnEnded",
    ]);
    const { text } = (await world.first(session, "ToolDone", 1)).data;
    expect(text).to.equal("hello\n[Exit code 0.]");
  });
});
