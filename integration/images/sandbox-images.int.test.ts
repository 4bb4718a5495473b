// The images that sandboxes run in, built from the very Dockerfiles, with pistisd-entry as process 1 of real containers.
import { expect } from "chai";
import { type RelayUnderTest, registerToken, startRelayForTest } from "#services/relay/tests/relay-under-test.ts";
import { newId } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";
import {
  buildImage,
  buildImages,
  type Container,
  docker,
  environmentsOf,
  launch,
  removeAll,
  removeContainers,
  shell,
  startContainer,
  whenever,
} from "./containers.ts";

const STOP_MS_MAX = 2_000;
const ORPHANS = 20;

/** As the documentation has it, with any base. */
const ownImage = (base: string) => `FROM ${base}
COPY --from=pistis/pistisd /opt/pistis /opt/pistis
WORKDIR /workspace
ENTRYPOINT ["/opt/pistis/pistisd-entry"]
`;

describe("images of sandboxes", function () {
  this.timeout(600_000);
  let relay: RelayUnderTest;
  const logged: string[] = [];
  const note = (fields: object, text: string) => void logged.push(`${text} ${JSON.stringify(fields)}`);
  const log: Log = { debug: note, info: note, warn: note, error: note };

  before(async () => {
    relay = await startRelayForTest({ log });
    await buildImages("pistisd", "sandbox", "pistis-browser");
  });
  afterEach(removeContainers);
  after(async () => {
    await removeAll();
    await relay?.close();
  });

  const bases = [
    { libc: "glibc", base: "debian:bookworm-slim", proof: "ls /lib64", says: "ld-linux-x86-64.so.2" },
    { libc: "musl", base: "pistis-base/musl", proof: "/lib/ld-musl-*.so.1 2>&1", says: "musl libc" },
  ];
  for (const { libc, base, proof, says } of bases) {
    describe(`of one's own on ${libc}`, () => {
      let image = "";
      let container: Container;
      before(async () => {
        image = await buildImage(ownImage(base));
      });
      beforeEach(async () => {
        container = await startContainer(relay, image);
      });

      it("S90: join with four lines more than the base, and run commands in /workspace", async () => {
        expect(await shell(container, "pwd; command -v node || echo no Node")).to.equal("/workspace\nno Node\n");
        expect(await shell(container, proof)).to.contain(says);
      });

      it("S41: have the join token in no process's environment and in no file", async () => {
        const { token } = container;
        const seen = await environmentsOf(container);
        expect(seen.join("\n")).to.contain("PISTIS_RELAY=").and.to.not.contain(token);
        const environments = await shell(container, "cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'");
        expect(environments).to.contain("PATH=").and.to.not.contain(token);
        const half = token.slice(0, 20);
        const search = `grep -rl ${half}"$rest" /etc /root /tmp /var /workspace`;
        expect(await shell(container, `rest=${token.slice(20)}; ${search} 2>/dev/null; echo searched`)).to.equal(
          "searched\n",
        );
      });

      it("leave no zombie behind a command's orphans", async () => {
        const orphans = `for i in $(seq ${ORPHANS}); do (sh -c "exit 0" & echo $! >> started) & done; wait; wc -l < started`;
        expect((await shell(container, orphans)).trim()).to.equal(`${ORPHANS}`);
        const zombies = "grep -l '^State:.Z' /proc/[0-9]*/status; echo counted";
        await whenever("no zombie is left", async () => (await shell(container, zombies)) === "counted\n");
      });

      it("end quickly, with exit code 0, when the container is stopped, and come back with their pass", async () => {
        const started = performance.now();
        await docker("stop", container.name);
        expect(performance.now() - started).to.be.lessThan(STOP_MS_MAX);
        expect(await docker("inspect", "--format", "{{.State.ExitCode}}", container.name)).to.equal("0");
        await docker("start", container.name);
        expect(await shell(container, "echo again")).to.equal("again\n");
      });

      it("C121: cannot use another one's join token", async () => {
        const used = await launch(relay, image, container);
        expect(await docker("wait", used)).to.equal("78");
        expect(logged.join("\n")).to.contain("join_token_used");
        const sandboxId = newId("sandbox");
        await registerToken(relay, sandboxId);
        const thief = await launch(relay, image, { sandboxId, token: container.token });
        expect(await docker("wait", thief)).to.equal("78");
        expect(logged.join("\n")).to.contain("join_token_unknown");
        expect(await shell(container, "echo mine")).to.equal("mine\n");
      });
    });
  }

  it("S41: shows the token to no program that the entry itself starts", async () => {
    const spy =
      "printf '#!/bin/sh\\nenv >> /spied\\nexec /bin/mkdir.real \"$@\"\\n' > /bin/mkdir && chmod +x /bin/mkdir";
    const dockerfile = ownImage("debian:bookworm-slim").replace(
      "WORKDIR",
      `RUN mv /bin/mkdir /bin/mkdir.real && ${spy}\nWORKDIR`,
    );
    const image = await buildImage(dockerfile);
    const container = await startContainer(relay, image);
    const seen = await shell(container, "cat /spied");
    expect(seen).to.contain("PISTIS_RELAY=").and.to.not.contain(container.token).and.to.not.contain("JOIN_TOKEN=");
  });

  it("S90: are Debian with git by default", async () => {
    const container = await startContainer(relay, "pistis/sandbox");
    const facts = await shell(
      container,
      ". /etc/os-release; echo $ID; git --version; git init -q x && ls -d x/.git; pwd",
    );
    expect(facts).to.match(/^debian\ngit version 2\.\S+\nx\/\.git\n\/workspace\n$/);
    expect(await shell(container, "pi-env | grep -c JOIN_TOKEN; command -v pistisd-musl")).to.equal(
      "0\n/opt/pistis/pistisd-musl\n",
    );
  });

  it("S91: have a Chromium that renders a page, Node and git in the one with a browser", async () => {
    const container = await startContainer(relay, "pistis/pistis-browser");
    expect(await shell(container, "node --version; git --version")).to.match(/^v24\.\S+\ngit version 2\.\S+\n$/);
    const page = "data:text/html,<p id=x></p><script>x.textContent=6*7</script>";
    const flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=/tmp/profile";
    expect(await shell(container, `chromium ${flags} --dump-dom '${page}' 2>/dev/null`)).to.contain('<p id="x">42</p>');
  });
});
