import { execFile } from "node:child_process";
import { Refusal } from "#shared/errors/errors.ts";
import { applyText, missingOf, parseTable, removeText } from "./filter-table.ts";
import { type FirewallSettings, firewallOf } from "./rules.ts";

const OUTPUT_BYTES_MAX = 32 * 1_024 * 1_024;
const PATIENCE_SECONDS = "10";
const COMMAND_MS_MAX = 30_000;

/** How iptables is run: in a network namespace of its own, for tests. */
export type FirewallTools = Readonly<{ before: readonly string[] }>;

const HERE: FirewallTools = { before: [] };

/** Makes the rules hold. Running it again changes nothing. Throws Refusal `iptables_missing`, `firewall_not_permitted`. */
export async function applyFirewall(settings: FirewallSettings, tools: FirewallTools = HERE): Promise<void> {
  const table = await readTable(tools);
  await restore(applyText(table, firewallOf(settings), settings.key), tools);
}

/** What does not hold, in words; empty when all of it does. */
export async function checkFirewall(settings: FirewallSettings, tools: FirewallTools = HERE): Promise<string[]> {
  return missingOf(await readTable(tools), firewallOf(settings));
}

/** Takes away the rules of this install and of no other. Returns whether there were any. */
export async function removeFirewall(key: string, tools: FirewallTools = HERE): Promise<boolean> {
  const text = removeText(await readTable(tools), key);
  if (text !== undefined) await restore(text, tools);
  return text !== undefined;
}

async function readTable(tools: FirewallTools) {
  return parseTable(await run(["iptables", "-w", PATIENCE_SECONDS, "-S"], tools));
}

async function restore(text: string, tools: FirewallTools): Promise<void> {
  await run(["iptables-restore", "-w", PATIENCE_SECONDS, "--noflush"], tools, text);
}

function run(command: readonly string[], { before }: FirewallTools, input = ""): Promise<string> {
  const [program = "", ...args] = [...before, ...command];
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const options = { maxBuffer: OUTPUT_BYTES_MAX, timeout: COMMAND_MS_MAX };
  const child = execFile(program, args, options, (error, stdout, stderr) => {
    if (error === null) resolve(stdout);
    else reject(failureOf(error, stderr));
  });
  // A program that is not there, or that ends early, reads nothing: its exit says why.
  child.stdin?.on("error", () => child.kill());
  child.stdin?.end(input);
  return promise;
}

function failureOf(cause: Error & { code?: unknown }, stderr: string): Refusal {
  if (cause.code === "ENOENT") {
    const next = "Install it on the Docker host, for example `apt-get install -y iptables`";
    return new Refusal("iptables_missing", "There is no iptables here", { cause, next });
  }
  const reason = stderr.trim().slice(0, 500) || cause.message;
  const next = "Run it as root on the Docker host, in the host's network namespace";
  return new Refusal("firewall_not_permitted", `iptables failed: ${reason}`, { cause, next });
}
