import { expect } from "chai";
import type { Docker } from "./docker.ts";
import { guestUid, usersWith } from "./guest-user.ts";

const facts = (mapsUsers: boolean): Docker["facts"] => ({
  version: "1",
  mapsUsers,
  seccomp: true,
  limits: { memory: true, swap: true, processes: true, cpu: true },
  driver: "overlay2",
  reservesDisk: false,
  cgroupVersion: "2",
});

describe("a sandbox's user", () => {
  it("is the same at each start, and another one in every sandbox and install", () => {
    const of = (installId: string, sandboxId: string) => guestUid({ facts: facts(false), installId }, sandboxId);
    expect(of("a", "sbx_1")).to.equal(of("a", "sbx_1")).and.to.be.within(1_900_000_000, 1_999_999_999);
    expect(new Set([of("a", "sbx_1"), of("a", "sbx_2"), of("b", "sbx_1")]).size).to.equal(3);
  });

  it("is a low number where the engine maps users, since it maps no others", () => {
    expect(guestUid({ facts: facts(true), installId: "a" }, "sbx_1")).to.equal(1_000);
  });

  it("stands beside the image's users, in place of one with its name or number", () => {
    const passwd = "root:x:0:0:root:/root:/bin/bash\npistis:x:5:5::/old:/bin/sh\nother:x:77:77::/:/bin/sh\n";
    expect(usersWith({ passwd, group: "" }, 77)).to.deep.equal({
      passwd: "root:x:0:0:root:/root:/bin/bash\npistis:x:77:77:Pistis:/home/pistis:/bin/sh\n",
      group: "pistis:x:77:\n",
    });
  });
});
