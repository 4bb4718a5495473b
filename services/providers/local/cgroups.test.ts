import { expect } from "chai";
import { candidateTrees } from "./cgroups.ts";

const mount = (root: string, at: string, type: string, options: string) =>
  `30 23 0:26 ${root} ${at} rw,nosuid - ${type} cgroup ${options}`;

describe("control group trees", () => {
  it("are one per controller in version 1, below this process's own group", () => {
    const own = "4:memory:/service/a\n3:cpu,cpuacct:/\n2:pids:/service/a\n1:name=systemd:/x\n";
    const mounts = [
      mount("/", "/sys/fs/cgroup/memory", "cgroup", "rw,memory"),
      mount("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu,cpuacct"),
      mount("/", "/sys/fs/cgroup/systemd", "cgroup", "rw,name=systemd"),
    ];
    expect(candidateTrees(own, mounts.join("\n"))).to.deep.equal([
      { version: 1, base: "/sys/fs/cgroup/memory/service/a", limits: ["memory"] },
      { version: 1, base: "/sys/fs/cgroup/cpu", limits: ["cpu"] },
    ]);
  });

  it("are one for all in version 2, with the root as the second choice", () => {
    const limits = ["memory", "processes", "cpu"];
    expect(candidateTrees("0::/user.slice/a.scope\n", mount("/", "/sys/fs/cgroup", "cgroup2", "rw"))).to.deep.equal([
      { version: 2, base: "/sys/fs/cgroup/user.slice/a.scope", limits },
      { version: 2, base: "/sys/fs/cgroup", limits },
    ]);
  });

  it("are found in a container that sees only a part of the tree", () => {
    const trees = candidateTrees(
      "4:memory:/docker/abc/inner\n",
      mount("/docker/abc", "/sys/fs/cgroup/memory", "cgroup", "rw,memory"),
    );
    expect(trees.map(({ base }) => base)).to.deep.equal(["/sys/fs/cgroup/memory/inner"]);
  });

  it("are none where nothing is mounted", () => {
    expect(candidateTrees("", "")).to.deep.equal([]);
  });
});
