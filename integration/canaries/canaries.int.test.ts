// A session with everything that holds a secret, and then a look everywhere: what SPEC.md section 6 keeps out of a
// sandbox is not in it, and what is a key is nowhere but where the server keeps its keys.
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import type { Server } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect } from "chai";
import { z } from "zod";
import { type ModelServer, type Served, startModelServer } from "#services/brain/testing/model-server.ts";
import { createSession } from "#services/cli/client/api.ts";
import { readInstallId } from "#services/cli/state/secrets.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { dockerCli, removeInstalls } from "#services/providers/docker/testing/docker-guests.ts";
import { startGitServer } from "#services/publisher/testing/git-server.ts";
import { commit, git, newRepository, tempFolder } from "#services/publisher/testing/repositories.ts";
import { LABELS } from "#shared/docker/names.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { buildImages, docker } from "../images/containers.ts";
import { type DevProcess, startDevProcess } from "../testing/dev-process.ts";
import { type FollowedSession, openTestSession } from "../testing/running-install.ts";
import { companionsOf, guestsOf, memoryOf, papersOf } from "./guest.ts";
import { type Canary, type Found, openScanner, type Scanner } from "./scan.ts";

/** Goes into the sandbox on purpose: a look that does not find it finds nothing. */
const CONTROL: Canary = { name: "control", value: `control-${newSecret()}` };

const canary = (name: string): Canary => ({ name, value: `canary-${newSecret()}` });
const keys = {
  modelKey: canary("model key"),
  gitToken: canary("git token"),
  mcpKey: canary("MCP key"),
  secretKey: canary("PISTIS_SECRET_KEY"),
  urlToken: canary("token in a repository's URL"),
};
const people = { user: canary("user name"), asked: canary("the user's message"), said: canary("the model's words") };

const COMMAND = `export CONTROL=${CONTROL.value}; echo $CONTROL > control.txt; env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'
cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat /workspace/repo/.git/config; cd /workspace/repo && git log --format='%an %ae' | head
sleep 1000 > /dev/null 2>&1 & echo started`;

const steps: readonly Served[] = [
  { kind: "reply", text: people.said.value, calls: [{ id: "a", name: "bash", input: { command: COMMAND } }] },
  {
    kind: "reply",
    text: people.said.value,
    calls: [{ id: "b", name: "write", input: { path: "/workspace/new.txt", content: CONTROL.value } }],
  },
  { kind: "reply", text: people.said.value },
];

const PROVIDERS = ["local", "docker"] as const;

for (const provider of PROVIDERS) {
  describe(`canaries in an install with sandboxes of ${provider}`, function () {
    this.timeout(180_000);
    const folder = tempFolder();
    let model: ModelServer;
    let repositories: { server: Server; host: string };
    let dev: DevProcess;
    let session: FollowedSession;
    let secrets: Canary[];
    let scanner: Scanner;

    before(async () => {
      if (provider === "docker") await buildImages("pistisd", "sandbox");
      model = await startModelServer((_request, count) => steps[count] ?? { kind: "reply", text: "No more" });
      commit(newRepository(join(folder.path, "source")), { "a.txt": "a\n" });
      git(folder.path, "clone", "-q", "--bare", "source", "served.git");
      mkdirSync(join(folder.path, "git"), { recursive: true });
      repositories = await startGitServer(folder.path, keys.gitToken.value, () => undefined);
      dev = await startDevProcess(configOf(provider), environmentOf());
      secrets = [...Object.values(keys), ...ownSecrets(dev)];
      scanner = openScanner([CONTROL, ...Object.values(people), ...secrets]);
      session = await openTestSession(dev.server, {
        title: `For ${people.user.value}`,
        repository: { url: `http://${repositories.host}/served.git` },
      });
      await session.post(people.asked.value);
      expect((await session.event("TurnEnded")).reason).to.equal("completed");
    });
    after(async () => {
      scanner?.close();
      await session?.close();
      const installId = dev && (await readInstallId(stateFolder(dev.statePath, {}, "/")));
      await dev?.close();
      if (provider === "docker") await removeInstalls(dockerCli(), [installId ?? ""]);
      await model?.close();
      repositories?.server.closeAllConnections();
      repositories?.server.close();
      folder.remove();
    });

    function configOf(name: (typeof PROVIDERS)[number]) {
      const { host } = repositories;
      const claude = { api: "anthropic", model: "any", apiKey: "${TEST_MODEL_KEY}", baseUrl: model.url } as const;
      return {
        models: { claude },
        defaultModel: "claude",
        sandboxes: { provider: name, ...(name === "docker" ? { image: "pistis/sandbox" } : {}) },
        git: { credentials: [{ host, token: "${TEST_GIT_TOKEN}" }] },
      };
    }

    it("C110: the secrets were used", () => {
      expect(model.requests[0]?.headers["x-api-key"]).to.equal(keys.modelKey.value);
      expect(session.seen("RepositoryCopied")).to.have.length(1);
      expect(session.seen("ToolDone").map(({ text }) => text)[0]).to.contain("started");
    });

    it("C110, S51: no process of the sandbox has one, in its environment, arguments or memory", async () => {
      const guests = await guestPids();
      expect(guests.length).to.be.above(1);
      const papers = await Promise.all(
        guests.flatMap((pid) => [...papersOf(pid)].map(([where, bytes]) => scanner.stream(where, bytes))),
      );
      expectOnlyControl(papers.flat());
      const memories: Found[] = [];
      for (const pid of guests) memories.push(...(await scanner.stream(`memory of ${pid}`, memoryOf(pid))));
      expectOnlyControl(memories);
    });

    it("C110, S50: its disk has none", async () => {
      expectOnlyControl(await diskOf());
    });

    it("S51: none came out with the output of commands, also not of one that looks for them", async () => {
      const output = session.seen("ToolDone").map(({ text }) => text);
      expectOnlyControl(await scanner.stream("output", Readable.from(output)));
    });

    it("S42: the ledger, the blobs, the logs and the relay's state have no key, and only the ledger the conversation", async () => {
      const pass = await passOf();
      const all = openScanner([...Object.values(people), ...secrets, { name: "pass", value: pass }]);
      try {
        const found = await all.folder(dev.statePath);
        const isKey = ({ name }: Found) => !Object.values(people).some((one) => one.name === name);
        const outside = found.filter(({ where }) => !isSandboxesOwn(where));
        expect(outside.filter(isKey).filter(({ where }) => !KEY_FILES.test(where))).to.deep.equal([]);
        expect(outside.filter(({ name }) => name === "pass")).to.deep.equal([]);
        expect(outside.filter((one) => !isKey(one) && !CONVERSATION_FILES.test(one.where))).to.deep.equal([]);
        expect(outside.filter((one) => !isKey(one)).map(({ where }) => where)).to.not.deep.equal([]);
      } finally {
        all.close();
      }
    });

    it("C110: a repository's URL with a token is refused, and kept nowhere", async () => {
      const url = `http://x:${keys.urlToken.value}@${repositories.host}/served.git`;
      const refused = await createSession(dev.server, { repository: { url } }).catch((error: unknown) => error);
      expect(refused).to.include({ code: "repository_url_has_credentials" });
      expect(String(refused)).to.not.contain(keys.urlToken.value);
      const found = await scanner.folder(dev.statePath);
      expect(found.filter(({ name }) => name === keys.urlToken.name)).to.deep.equal([]);
    });

    async function guestPids(): Promise<number[]> {
      if (provider === "local") return guestsOf(dev.pid);
      return companionsOf(Number(await docker("inspect", "--format", "{{.State.Pid}}", await containerId())));
    }

    async function diskOf(): Promise<Found[]> {
      if (provider === "local") return scanner.folder(join(dev.statePath, "sandboxes"));
      const id = await containerId();
      const told = [await docker("inspect", id), await docker("history", "--no-trunc", await imageOf(id))];
      const tar = spawn("docker", ["export", id], { stdio: ["ignore", "pipe", "inherit"] });
      return [
        ...(await scanner.stream("docker inspect", Readable.from(told))),
        ...(await scanner.stream("disk", tar.stdout)),
      ];
    }

    /** What pistisd itself holds, which is good for this sandbox at the relay and for nothing else. */
    async function passOf(): Promise<string> {
      const [daemon = 0] = (await guestPids()).filter(
        (pid) => readFileSync(`/proc/${pid}/comm`, "utf8") === "pistisd\n",
      );
      const text = readFileSync(`/proc/${daemon}/root/var/lib/pistisd/state.json`, "utf8");
      return z.object({ pass: z.string().min(20) }).parse(JSON.parse(text)).pass;
    }

    const containerId = () =>
      docker("ps", "--quiet", "--no-trunc", "--filter", `label=${LABELS.session}=${session.id}`);
    const imageOf = (id: string) => docker("inspect", "--format", "{{.Image}}", id);
  });
}

/** Where the server keeps its keys: its own file, and what it gives to the servers that it starts. */
const KEY_FILES = /^\.\/(secrets\.json|nats\/[^/]*\.conf|server\.json)$/;
/** The ledger's store, and what is made of it. */
const CONVERSATION_FILES = /^\.\/(nats\/|postgres\/|blobs\/)/;

const isSandboxesOwn = (where: string) => where.startsWith("./sandboxes/");

function expectOnlyControl(found: readonly Found[]): void {
  expect(found.filter(({ name }) => name !== CONTROL.name)).to.deep.equal([]);
  expect(found.map(({ name }) => name)).to.include(CONTROL.name);
}

function environmentOf(): Record<string, string> {
  return {
    TEST_MODEL_KEY: keys.modelKey.value,
    TEST_GIT_TOKEN: keys.gitToken.value,
    TEST_MCP_KEY: keys.mcpKey.value,
    PISTIS_SECRET_KEY: keys.secretKey.value,
    ...{ USER: people.user.value, LOGNAME: people.user.value, GIT_AUTHOR_NAME: people.user.value },
  };
}

/** Each key that the install made for itself: of the API, the relay, the egress service, PostgreSQL and NATS. */
function ownSecrets({ statePath }: DevProcess): Canary[] {
  const file = readFileSync(stateFolder(statePath, {}, "/").secrets, "utf8");
  const walk = (name: string, value: unknown): Canary[] => {
    if (typeof value === "string") return name === "installId" || name.endsWith("publicKey") ? [] : [{ name, value }];
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]) => walk(name === "" ? key : `${name}.${key}`, inner));
  };
  return walk("", JSON.parse(file));
}
