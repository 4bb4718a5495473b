// What a hostile program in a real sandbox can do at the relay, which is all that it can reach. Beside it is a sandbox of
// another session, whose commands go on.
import { expect } from "chai";
import { relayPaths } from "#schemas/wire/relay-http.ts";
import { asAdmin, registerToken } from "#services/relay/tests/relay-under-test.ts";
import { newId } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { breaches, floods } from "./breaches.ts";
import { type HostileSandbox, type HostileSandboxes, openHostileSandboxes } from "./hostile-sandboxes.ts";

const FLOOD_SECONDS = 2;
const MIB = 1024 * 1024;
const BOMB_MIB = 128;
/** What the relay may grow by while a bomb is thrown at it; packed it has an eighth of a MiB. */
const GROWTH_MIB_MAX = 48;
/** The same under a flood: most of it is what V8 leaves lying until it has time. */
const FLOODED_MIB_MAX = 160;
const READ_BOMB = `open(my $f, "<", "/tmp/bomb.gz"); binmode $f; local $/; my $bomb = <$f>;`;
const COMMAND_MS_MAX = 5_000;

describe("a hostile program in a Docker sandbox, at the relay's socket", function () {
  this.timeout(120_000);
  let sandboxes: HostileSandboxes;
  let hostile: HostileSandbox;
  let bystander: SandboxLink;

  before(async () => {
    sandboxes = await openHostileSandboxes();
    hostile = await sandboxes.open();
    bystander = await sandboxes.openBystander();
    await hostile.sh(`head -c ${BOMB_MIB * MIB} /dev/zero | gzip -9 > /tmp/bomb.gz`);
  });
  after(() => sandboxes.close());
  afterEach("the other session's commands go on", async () => {
    const startedAt = performance.now();
    expect(await commandOf(bystander)).to.equal("here\n");
    expect(performance.now() - startedAt).to.be.lessThan(COMMAND_MS_MAX);
  });

  it("S42: opens its own connection with its pass, and nothing else", async () => {
    const other = newId("sandbox");
    const paths = ["/v1/sandboxes", `/v1/sandboxes/${other}`, `/v1/sandboxes/${hostile.ref.sandboxId}/attach`];
    const asks = ["GET", "POST", "DELETE"].flatMap((method) => paths.map((path) => [method, path] as const));
    const text = asks.map(([method, path]) => `print ask("${method}", "${path}", $pass), "\\n";`).join("\n");
    expect(new Set(lines(await hostile.perl(text)))).to.deep.equal(new Set(["404 not_found"]));
    expect(await hostile.perl(`print ask("POST", "/v1/join-tokens", $pass, "content-length: 2\\r\\n", "{}")`)).to.equal(
      "404 not_found",
    );
    expect(await hostile.perl(`my ($s, $head) = upgrade("/v1/connect", $pass); print $head`)).to.match(/ 101 /);
  });

  it("S40, C121: gets nothing for a join token that was traded, once or a hundred times at once", async () => {
    expect(await hostile.perl(`print ask("POST", "/v1/join", $token)`)).to.equal("401 join_token_used");
    const all = `for (1 .. 100) { unless (fork) { my $got = ask("POST", "/v1/join", $token); print "$got\\n"; exit } } 1 while wait > 0`;
    const answers = lines(await hostile.perl(all));
    expect(answers).to.have.length(100);
    for (const answer of answers) expect(answer).to.match(/^(401 join_token_used|429 too_many_attempts)$/);
  });

  it("S42, C121: gets nothing for another sandbox's token or pass once that one has a newer, or is gone", async () => {
    const neighbour = await sandboxes.open();
    const tries = (pass: string) =>
      hostile.perl(`my ($s, $head) = upgrade("/v1/connect", "${pass}"); print $head =~ m{^HTTP/1.1 (\\d+)}`);
    const { token } = await registerToken(sandboxes.relay, neighbour.ref.sandboxId);
    const traded = await neighbour.perl(`print ask("POST", "/v1/join", "${token}")`);
    expect(traded).to.equal("200");
    expect(await tries(neighbour.pass)).to.match(/^(401|429)$/);
    await fetch(sandboxes.relay.url + relayPaths.sandbox(neighbour.ref.sandboxId), asAdmin("DELETE"));
    expect(await hostile.perl(`print ask("POST", "/v1/join", "${neighbour.token}")`)).to.match(/^(401 join_token|429)/);
    expect(await tries(hostile.pass), "its own still works").to.equal("101");
  });

  for (const { what, sends, ends } of breaches) {
    it(`is cut off for ${what}`, async () => {
      expect(await hostile.perl(`print sends(${sends})`)).to.match(ends);
    });
  }

  it("is not spoken to in packed frames, and a bomb in one is never unpacked", async () => {
    const offer = `"sec-websocket-extensions: permessage-deflate; client_max_window_bits\\r\\n"`;
    const head = await hostile.perl(`my ($s, $head) = upgrade("/v1/connect", $pass, ${offer}); print $head`);
    expect(head)
      .to.match(/ 101 /)
      .and.to.not.match(/sec-websocket-extensions/i);
    const grown = await growthMib(async () => {
      // What is inside of a gzip file; 0xc2 says that the frame is packed.
      const thrown = `${READ_BOMB} $bomb = substr($bomb, 10, -8); my $s = connected(${offer}); print $s frame(0xc2, $bomb); $s->flush; print length $bomb, " ", ending($s)`;
      const [size, code] = (await hostile.perl(thrown)).split(" ");
      expect(Number(size)).to.be.within(0.1 * MIB, 0.2 * MIB);
      expect(code).to.equal("1002");
    });
    expect(grown).to.be.lessThan(GROWTH_MIB_MAX);
  });

  it("has a request with a packed body refused, and the body is never unpacked", async () => {
    const head = `"content-type: application/json\\r\\ncontent-encoding: gzip\\r\\ncontent-length: " . length($bomb) . "\\r\\n"`;
    const paths = ["/v1/join", "/v1/join-tokens", "/healthz"];
    const grown = await growthMib(async () => {
      const text = paths.map((path) => `print ask("POST", "${path}", $pass, ${head}, $bomb), "\\n";`).join(" ");
      for (const answer of lines(await hostile.perl(READ_BOMB + text))) expect(answer).to.match(/^(4\d\d \w+|cut)$/);
    });
    expect(grown).to.be.lessThan(GROWTH_MIB_MAX);
  });

  for (const { what, program } of floods) {
    it(`floods it with ${what}: the relay does not grow, another session's commands go on, and a new sandbox joins`, async () => {
      const flooded = await sandboxes.open();
      await sandboxes.attach(flooded.ref);
      const grown = await growthMib(async () => {
        let over = false;
        const flood = flooded.perl(`my $end = time + ${FLOOD_SECONDS}; ${program}; print "flooded"`).finally(() => {
          over = true;
        });
        while (!over) {
          const startedAt = performance.now();
          expect(await commandOf(bystander)).to.equal("here\n");
          expect(performance.now() - startedAt).to.be.lessThan(COMMAND_MS_MAX);
          if (over) continue;
          expect((await sandboxes.open()).pass).to.not.equal("");
        }
        expect(await flood).to.equal("flooded");
      });
      expect(grown).to.be.lessThan(FLOODED_MIB_MAX);
    });
  }
});

async function commandOf(link: SandboxLink): Promise<string> {
  const excerpt = { headBytes: 100, tailBytes: 100 };
  const asked = { callId: newId("call"), command: "echo here", timeoutMs: 30_000, background: false, excerpt };
  return Buffer.from((await link.exec(asked)).head, "base64").toString();
}

/** By how much this process, in which the relay runs, grew at most while the work was done. */
async function growthMib(work: () => Promise<void>): Promise<number> {
  const before = process.memoryUsage().rss;
  let highest = before;
  const watch = setInterval(() => {
    highest = Math.max(highest, process.memoryUsage().rss);
  }, 5);
  await work().finally(() => clearInterval(watch));
  return (highest - before) / MIB;
}

function lines(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}
