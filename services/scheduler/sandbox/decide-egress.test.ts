import type { PistisEvent } from "#schemas/ledger/event.ts";
import {
  createRequested,
  deleteRequested,
  destroyed,
  ended,
  given,
  missing,
  needed,
  opened,
  sandboxId,
  says,
  second,
  up,
} from "../testing/sandbox-fixture.ts";

describe("a sandbox whose egress service tells what it asked for", () => {
  const request = {
    ...{ host: "example.com", port: 443, via: "connect" as const, allowed: true, reason: "ended" as const },
    ...{ bytesUp: 1, bytesDown: 2, durationMs: 3 },
  };
  const untold = { allowed: 0, refused: 7, bytesUp: 0, bytesDown: 0 };
  const tells = (batch: string, generation = 1, reporter = "egress") =>
    says(reporter, { kind: "egress", sandboxId, generation, batch, requests: [request, request], untold });
  const about = (batch: string, generation = 1) => ({ sandboxId, generation, batch });
  const logged = (batch: string, generation = 1): PistisEvent[] => [
    { type: "EgressLogged", data: { ...about(batch, generation), ...request } },
    { type: "EgressLogged", data: { ...about(batch, generation), ...request } },
    { type: "EgressSummarised", data: { ...about(batch, generation), ...untold } },
  ];

  it("S60: records each request and the sum of the rest, once however often the report comes", () => {
    given(...up)
      .when(tells("evt_1"))
      .then(...logged("evt_1"));
    given(...up, ...logged("evt_1"))
      .when(tells("evt_1"))
      .thenNothing();
    given(...up, ...logged("evt_1"))
      .when(tells("evt_2"))
      .then(...logged("evt_2"));
  });

  it("records it also when the sandbox is gone or another generation took its place", () => {
    const replaced = [...up, missing, needed("absent"), createRequested("tsk_c2", second)];
    given(...replaced)
      .when(tells("evt_1"))
      .then(...logged("evt_1"));
    given(...up, ended, deleteRequested(), destroyed)
      .when(tells("evt_1"))
      .then(...logged("evt_1"));
  });

  it("believes nobody else, and nothing about a sandbox that was never asked for", () => {
    given(...up)
      .when(tells("evt_1", 1, "provider-local"))
      .thenRefused("report_foreign");
    given(...up)
      .when(tells("evt_1", 2))
      .thenRefused("report_stale");
    given(opened).when(tells("evt_1")).thenRefused("report_unknown_sandbox");
  });
});
