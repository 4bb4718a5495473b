// The whole of docker-compose.yml on a real engine: from `up` to a session with commands in a Docker sandbox, a killed
// service, and `down`.
import { kill } from "node:process";
import { expect } from "chai";
import { LABELS } from "#shared/docker/names.ts";
import { docker } from "../images/containers.ts";
import { openTestSession } from "../testing/running-install.ts";
import { openStack, type Stack, type StackContainer } from "./stack.ts";

const SERVICES = [
  "brain",
  "brain",
  "docker-proxy",
  "egress",
  "gateway",
  "nats",
  "postgres",
  "prepare",
  "projector",
  "provider-docker",
  "publisher",
  "relay",
  "sandbox-image",
  "scheduler",
];

/** One of two brains; all else is there once. */
const KILLED = ["brain", "relay", "scheduler", "provider-docker", "docker-proxy"];

describe("docker compose up", function () {
  this.timeout(600_000);
  let stack: Stack;

  before(async () => {
    stack = await openStack();
    await stack.compose("up", "--detach");
    await stack.healthy();
  });
  after(() => stack?.close());

  async function only(service: string): Promise<StackContainer> {
    const found = (await stack.containers()).find((one) => one.service === service);
    if (found === undefined) throw new Error(`There is no ${service}`);
    return found;
  }

  it("brings up every service, each healthy", async () => {
    const found = await stack.containers();
    expect(found.map(({ service }) => service).sort()).to.deep.equal(SERVICES);
  });

  it("publishes nothing but the gateway", async () => {
    const published = (await stack.containers()).flatMap(({ service, NetworkSettings }) =>
      Object.values(NetworkSettings.Ports).flatMap((ports) =>
        (ports ?? []).map(({ HostIp }) => `${service} ${HostIp}`),
      ),
    );
    expect(published).to.deep.equal(["gateway 127.0.0.1"]);
  });

  it("gives the Docker socket to docker-proxy alone, which has no network and shares a folder with the provider only", async () => {
    const found = await stack.containers();
    const withMount = (fits: (mount: StackContainer["Mounts"][number]) => boolean) =>
      found.filter(({ Mounts }) => Mounts.some(fits)).map(({ service }) => service);
    expect(withMount(({ Source, Destination }) => /docker\.sock$/.test(Source + Destination))).to.deep.equal([
      "docker-proxy",
    ]);
    expect(withMount(({ Destination }) => Destination === "/run/pistis-docker").sort()).to.deep.equal([
      "docker-proxy",
      "provider-docker",
    ]);
    expect((await only("docker-proxy")).HostConfig.NetworkMode).to.equal("none");
  });

  it("runs all of them without privileges, on a disk that they cannot change", async () => {
    for (const { service, HostConfig, Config } of await stack.containers()) {
      const { Privileged, ReadonlyRootfs, CapDrop, SecurityOpt } = HostConfig;
      const wanted = {
        Privileged: false,
        ReadonlyRootfs: true,
        CapDrop: ["ALL"],
        SecurityOpt: ["no-new-privileges:true"],
      };
      expect({ Privileged, ReadonlyRootfs, CapDrop, SecurityOpt }, service).to.deep.equal(wanted);
      if (Config.Env.some((variable) => variable.startsWith("PISTIS_HEALTH_FILE=")) && service !== "docker-proxy")
        expect(Config.User, service).to.equal("pistis");
    }
  });

  it("gives each service the secrets that it needs and no other", async () => {
    const found = await stack.containers();
    const holders = (name: string) => {
      const secret = stack.environment[name] ?? "";
      expect(secret, name).to.not.equal("");
      return found
        .flatMap(({ service, Config }) => (Config.Env.some((one) => one.includes(secret)) ? [service] : []))
        .sort();
    };
    expect(holders("PISTIS_ADMIN_TOKEN")).to.deep.equal(["gateway"]);
    expect(holders("PISTIS_EGRESS_KEY")).to.deep.equal(["egress", "relay"]);
    expect(holders("PISTIS_RELAY_KEY")).to.deep.equal(["brain", "brain", "gateway", "publisher", "relay", "scheduler"]);
    const database = ["brain", "brain", "gateway", "postgres", "prepare", "projector", "publisher", "scheduler"];
    expect(holders("PISTIS_POSTGRES_PASSWORD")).to.deep.equal(database);
    const seeds = Object.keys(stack.environment).filter((name) => name.startsWith("PISTIS_NATS_SEED_"));
    const owners = Object.fromEntries(seeds.map((name) => [name.slice(17), [...new Set(holders(name))].join()]));
    expect(owners).to.deep.equal({
      SETUP: "prepare",
      EDGE_SETUP: "prepare",
      GATEWAY: "gateway",
      BRAIN: "brain",
      SCHEDULER: "scheduler",
      EDGE_SCHEDULER: "scheduler",
      PUBLISHER: "publisher",
      PROJECTOR: "projector",
      RELAY: "relay",
      EGRESS: "egress",
      PROVIDER_DOCKER: "provider-docker",
      PROVIDER_LOCAL: "",
    });
  });

  it("runs a session's commands in a container, goes on when services are killed, and can be removed whole", async () => {
    const session = await openTestSession(stack.server);
    await session.post("$ . /etc/os-release; echo $ID; git --version; grep -c : /proc/net/dev");
    expect((await session.event("TurnEnded")).reason).to.equal("completed");
    const output = () =>
      session
        .seen("ToolDone")
        .map(({ text }) => text)
        .join("");
    expect(output()).to.match(/debian\ngit version 2\.\S+\n1\n/);

    for (const service of KILLED) kill((await only(service)).State.Pid, "SIGKILL");
    await session.post("$ echo went on");
    expect((await session.event("TurnEnded", 2)).reason).to.equal("completed");
    expect(output()).to.contain("went on");
    expect(session.seen("SandboxCreated")).to.have.length(1);
    await stack.healthy();

    const { id } = session;
    const sandboxes = await docker("ps", "--quiet", "--filter", `label=${LABELS.session}=${id}`);
    expect(sandboxes.split("\n")).to.have.length(1);
    expect(await docker("inspect", "--format", "{{.HostConfig.NetworkMode}}", sandboxes)).to.equal("none");
    await session.close();
    await stack.remove();
    expect(await stack.leftovers()).to.deep.equal([]);
  });
});
