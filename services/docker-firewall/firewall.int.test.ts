// The firewall's rules in a network namespace of their own, and then, for the subnets of this test only, around real
// containers of the real engine.
import { expect } from "chai";
import { Resources } from "#shared/service/resources.ts";
import { applyFirewall, checkFirewall, type FirewallTools, removeFirewall } from "./firewall.ts";
import { run } from "./testing/command.ts";
import { HOST_ON_LINK, INTERNET, METADATA, openHostPort, openOutside, POOL, PORT, PRIVATE } from "./testing/outside.ts";

describe("the firewall's rules in the kernel", () => {
  const name = `pistis-rules-${process.pid}`;
  const tools: FirewallTools = { before: ["ip", "netns", "exec", name] };
  const one = { key: "aaaaaaaaaaaa", pool: "10.208.0.0/12", except: ["203.0.113.0/24"] };
  const other = { ...one, key: "bbbbbbbbbbbb", except: [] };
  const rules = async () => (await run("ip", "netns", "exec", name, "iptables", "-S")).split("\n");

  before(() => run("ip", "netns", "add", name));
  after(() => run("ip", "netns", "delete", name));

  it("hold after they were applied, once or twice, whether Docker has started or not", async () => {
    expect(await checkFirewall(one, tools)).to.not.deep.equal([]);
    await applyFirewall(one, tools);
    const first = await rules();
    expect(await checkFirewall(one, tools)).to.deep.equal([]);
    await applyFirewall(one, tools);
    expect(await rules()).to.deep.equal(first);
  });

  it("are the same as the commands that are printed", async () => {
    const { firewallCommands, firewallOf } = await import("./rules.ts");
    const applied = new Set(await rules());
    await removeFirewall(one.key, tools);
    for (const _time of [1, 2]) {
      await run("ip", "netns", "exec", name, "sh", "-ec", firewallCommands(firewallOf(one)));
      expect(await checkFirewall(one, tools)).to.deep.equal([]);
      expect(new Set(await rules())).to.deep.equal(applied);
    }
  });

  it("come back whole after somebody changed them", async () => {
    const iptables = (...args: string[]) => run("ip", "netns", "exec", name, "iptables", ...args);
    await iptables("-I", "DOCKER-USER", "-j", "ACCEPT");
    await iptables("-D", "PISTIS-aaaaaaaaaaaa-OUT", "2");
    expect(await checkFirewall(one, tools)).to.have.length(3);
    await applyFirewall(one, tools);
    expect(await checkFirewall(one, tools)).to.deep.equal([]);
  });

  it("of two installs stand beside each other, and one's go without the other's", async () => {
    await applyFirewall(other, tools);
    expect(await checkFirewall(one, tools)).to.deep.equal([]);
    expect(await checkFirewall(other, tools)).to.deep.equal([]);
    expect(await removeFirewall(one.key, tools)).to.equal(true);
    expect(await checkFirewall(other, tools)).to.deep.equal([]);
    expect(await removeFirewall(other.key, tools)).to.equal(true);
    expect(await removeFirewall(other.key, tools)).to.equal(false);
    expect((await rules()).join("\n")).to.not.contain("PISTIS");
  });

  it("say what is missing to apply them", async () => {
    const nowhere = { before: ["/nonexistent/sudo"] };
    expect(await failureOf(applyFirewall(one, nowhere))).to.have.property("code", "iptables_missing");
    const nobody = { before: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"] };
    expect(await failureOf(applyFirewall(one, nobody))).to.have.property("code", "firewall_not_permitted");
  });
});

describe("a Docker sandbox with internet", () => {
  const resources = new Resources();
  const settings = { key: "fedcba987654", pool: POOL, except: ["203.0.113.0/24"] };
  let sandbox: Reach;
  let siblingAddress: string;
  let siblingGateway: string;
  let gateway: string;
  let hostPort: number;

  before(async () => {
    await openOutside(resources);
    hostPort = await openHostPort(resources);
    sandbox = await startContainer(resources, "one", "198.18.77.0/29");
    const sibling = await startContainer(resources, "two", "198.18.77.8/29");
    siblingAddress = sibling.address;
    siblingGateway = sibling.gateway;
    gateway = sandbox.gateway;
    resources.add("rules", settings.key, removeFirewall);
  });

  after(() => resources.close());

  it("reaches private ranges, metadata and this machine's ports while the rules are missing", async () => {
    const open = [`${INTERNET}/${PORT}`, `${PRIVATE}/${PORT}`, `${METADATA}/${PORT}`];
    const host = [`${gateway}/${hostPort}`, `${HOST_ON_LINK}/${hostPort}`];
    expect(await sandbox.tries(...open, ...host)).to.deep.equal(all("reached", ...open, ...host));
  });

  it("reaches the internet and nothing else when they are applied, and hears so at once", async () => {
    await applyFirewall(settings);
    expect(await checkFirewall(settings)).to.deep.equal([]);
    const internet = `${INTERNET}/${PORT}`;
    const outside = [PRIVATE, METADATA, siblingAddress, "192.0.2.1", "100.64.0.1", "10.255.0.1", "172.31.0.1"];
    const host = [gateway, HOST_ON_LINK, siblingGateway];
    const closed = [
      ...outside.map((address) => `${address}/${PORT}`),
      ...host.map((address) => `${address}/${hostPort}`),
    ];
    const seen = await sandbox.tries(internet, ...closed);
    expect(seen).to.deep.equal({ [internet]: "reached", ...all("refused", ...closed) });
  });

  it("is reached by nobody, and has no IPv6 at all", async () => {
    const namespace = `pistis-fw-${process.pid}`;
    const { address } = sandbox;
    await run("ip", "-n", namespace, "route", "replace", address, "via", HOST_ON_LINK);
    const asked = await run("ip", "netns", "exec", namespace, "bash", "-c", attempt(`${address}/22`));
    expect(asked).to.equal(`${address}/22 refused`);
    expect(await sandbox.runs("cat /proc/net/if_inet6 | grep -v ' lo$' | wc -l")).to.equal("0");
  });

  it("does not reach a documentation range that is no exception", async () => {
    await applyFirewall({ ...settings, except: [] });
    const internet = `${INTERNET}/${PORT}`;
    expect(await sandbox.tries(internet)).to.deep.equal(all("refused", internet));
  });
});

type Reach = Readonly<{
  address: string;
  gateway: string;
  /** What comes of a connection to each `address/port`: reached, refused or silent. */
  tries: (...targets: string[]) => Promise<Readonly<Record<string, string>>>;
  runs: (command: string) => Promise<string>;
}>;

async function startContainer(resources: Resources, suffix: string, subnet: string): Promise<Reach> {
  const name = `pistis-firewall-test-${process.pid}-${suffix}`;
  const icc = ["--opt", "com.docker.network.bridge.enable_icc=false"];
  await run("docker", "network", "create", "--driver", "bridge", "--subnet", subnet, ...icc, name);
  resources.add("network", name, () => run("docker", "network", "rm", name));
  const safe = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", name, "--name", name];
  await run("docker", "run", "-d", ...safe, "debian:bookworm-slim", "sleep", "1000");
  resources.add("container", name, () => run("docker", "rm", "-f", name));
  const format = `{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}}{{end}}`;
  const [address = "", gateway = ""] = (await run("docker", "inspect", "-f", format, name)).split(" ");
  const runs = (command: string) => run("docker", "exec", name, "bash", "-c", command);
  return {
    address,
    gateway,
    runs,
    tries: async (...targets) => outcomesIn(await runs(`${targets.map(attempt).join(" & ")} & wait`)),
  };
}

function all(outcome: string, ...targets: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(targets.map((target) => [target, outcome]));
}

/** Prints the target and its outcome. A connection that is dropped instead of refused is silent for longer than this. */
function attempt(target: string): string {
  const ask = `exec 3<>/dev/tcp/${target} && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && tail -n1 <&3`;
  const outcome = `case $? in 0) echo ${target} reached;; 124) echo ${target} silent;; *) echo ${target} refused;; esac`;
  return `{ timeout 10 bash -c '${ask}' >/dev/null 2>&1; ${outcome}; }`;
}

function outcomesIn(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(text.split("\n").map((line) => line.split(" ")));
}

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => "no failure",
    (error: unknown) => error,
  );
}
