import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { expect } from "chai";
import { silentLog } from "#shared/service/log.ts";
import { defaultLimits } from "../limits.ts";
import { openClient } from "./client.ts";

describe("a client of a stream", () => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

  it("that left while its first page was read is sent nothing and keeps no heartbeat", () => {
    const before = timers();
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const client = openClient(response, defaultLimits, silentLog);
    response.emit("close");
    client.open();
    expect(response.headersSent).to.equal(false);
    expect(timers()).to.equal(before);
    expect(client.signal.aborted).to.equal(true);
  });
});
