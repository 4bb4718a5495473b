// `pistis docker-firewall`: the rules that close private ranges, other sandboxes and the host for sandboxes with internet.
import { type Command, Option } from "commander";
import type { FirewallSettings } from "#services/docker-firewall/rules.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { installKey } from "#shared/docker/names.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { canonicalSubnet } from "#shared/network/subnets.ts";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import { configFileIn } from "../dev/config-file.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import { readInstallId } from "../state/secrets.ts";

type Options = { apply?: true; check?: true; remove?: true; except: string[]; config?: string; state?: string };

const HELP = `
Docker sandboxes with internet (sandboxes.internet) each have a network of their own out of sandboxes.docker.subnets. These
rules are for that whole range and stay as they are while sandboxes come and go: private, link-local, metadata, multicast
and documentation ranges, other sandboxes and every port of this machine are refused, the rest of the internet is not.
Sandboxes without internet have no network and need none of it. Without the rules such a session is refused by its probe.

A name server in a private range is closed too: set sandboxes.docker.dns to a public one, or open it with --except.

Run it as root on the Docker host, at every start of the machine before Pistis; the rules survive a restart of Docker.
The install is the one of --state, or PISTIS_INSTALL_ID.

Examples:
  $ pistis docker-firewall                      # prints the commands and changes nothing
  $ sudo pistis docker-firewall --apply
  $ pistis docker-firewall --check              # exit code 1, and what is missing
  $ pistis docker-firewall --apply --except 10.1.2.3/32`;

export function addDockerFirewall(program: Command, context: Context, finish: (exitCode: number) => void): void {
  program
    .command("docker-firewall")
    .summary("close private ranges for Docker sandboxes with internet")
    .description("Prints, applies, checks or removes the firewall of Docker sandboxes with internet (iptables).")
    .addOption(new Option("--apply", "make the rules hold; may be run again").conflicts(["check", "remove"]))
    .addOption(new Option("--check", "say what does not hold").conflicts(["apply", "remove"]))
    .addOption(new Option("--remove", "take the rules of this install away").conflicts(["apply", "check"]))
    .option("--except <range>", "a closed range that sandboxes may reach all the same, as a.b.c.d/n", repeated, [])
    .option("--config <file>", "pistis.json (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .addHelpText("after", HELP)
    .action(async (options: Options) => finish(await run(context, options)));
}

function repeated(range: string, before: readonly string[]): string[] {
  return [...before, range];
}

async function run(context: Context, options: Options): Promise<number> {
  const { out } = context.terminal;
  const settings = await settingsOf(context, options);
  const { applyFirewall, checkFirewall, removeFirewall } = await import("#services/docker-firewall/firewall.ts");
  const { firewallCommands, firewallOf } = await import("#services/docker-firewall/rules.ts");
  if (options.check === true) return reportCheck(context, await checkFirewall(settings));
  if (options.remove === true) {
    out((await removeFirewall(settings.key)) ? "The firewall's rules were removed\n" : "There were no rules\n");
    return EXIT_OK;
  }
  if (options.apply !== true) {
    out(firewallCommands(firewallOf(settings)));
    return EXIT_OK;
  }
  await applyFirewall(settings);
  out(`The firewall holds for ${settings.pool}\n`);
  return EXIT_OK;
}

function reportCheck({ terminal }: Context, missing: readonly string[]): number {
  if (missing.length === 0) {
    terminal.out("The firewall holds\n");
    return EXIT_OK;
  }
  for (const line of missing) terminal.out(`${line}\n`);
  terminal.err("  next: run `pistis docker-firewall --apply` as root\n");
  return EXIT_FAILED;
}

async function settingsOf(context: Context, options: Options): Promise<FirewallSettings> {
  const { environment, cwd } = context;
  const configFile = await configFileIn(options.config, cwd);
  const { sandboxes } = await readConfigPart(configFile, environment, { sections: ["sandboxes"] });
  const { subnets } = sandboxes.docker;
  if (subnets === "engine") throw unknownPool();
  return {
    key: installKey(await installOf(context, options)),
    pool: range(subnets),
    except: options.except.map(range),
  };
}

function unknownPool(): Refusal {
  return new Refusal("firewall_pool_unknown", "Networks come from Docker's own pools, which are not sandboxes' alone", {
    next: "Set sandboxes.docker.subnets in pistis.json to a range that nothing else uses, such as 10.208.0.0/12",
  });
}

function range(text: string): string {
  const canonical = canonicalSubnet(text);
  if (canonical !== undefined) return canonical;
  throw new Refusal("range_unfit", `${text} is no IPv4 range`, { next: "Write it as a.b.c.d/n" });
}

async function installOf(context: Context, { state }: Options): Promise<string> {
  const given = context.environment["PISTIS_INSTALL_ID"] ?? (await readInstallId(folderOf(context, state)));
  if (given !== undefined) return given;
  throw new Refusal("install_unknown", "There is no install here yet", {
    next: "Start `pistis dev` or run `pistis setup` once, name the folder with --state, or set PISTIS_INSTALL_ID",
  });
}
