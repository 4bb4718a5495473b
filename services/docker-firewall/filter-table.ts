// What is in the kernel's filter table, and the one transaction that changes it: all rules at once or none, so a process
// that dies on the way leaves what was there before.
import { chainPrefix, DOCKER_USER, type Firewall, type Jump } from "./rules.ts";

/** Chains with their rules in order, as `iptables -S` prints them. */
export type FilterTable = ReadonlyMap<string, readonly string[]>;

export function parseTable(text: string): FilterTable {
  const table = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [, made = ""] = /^-[PN] (\S+)/.exec(line) ?? [];
    if (made !== "") table.set(made, table.get(made) ?? []);
    const [, chain = "", rule = ""] = /^-A (\S+) (.+)$/.exec(line) ?? [];
    if (chain !== "") table.set(chain, [...(table.get(chain) ?? []), rule]);
  }
  return table;
}

/** Everything that differs from the firewall, in words; empty when it holds. */
export function missingOf(table: FilterTable, { chains, jumps }: Firewall): string[] {
  const wrong = chains.filter(({ name, rules }) => !isSame(table.get(name), rules));
  const loose = jumps.filter((jump) => !isHung(table, jump));
  const lost = table.get("FORWARD")?.includes(DOCKER_USER.jump) ? [] : ["FORWARD does not go through DOCKER-USER"];
  return [
    ...wrong.map(({ name }) => `the chain ${name} ${table.has(name) ? "has other rules" : "is missing"}`),
    ...loose.map(({ hook, rule }) => `${hook} does not begin with ${rule}`),
    ...lost,
  ];
}

function isSame(found: readonly string[] | undefined, rules: readonly string[]): boolean {
  return found?.length === rules.length && rules.every((rule, index) => found[index] === rule);
}

/** Before anything else in the chain but other installs' jumps: a rule in front of it could let everything pass. */
function isHung(table: FilterTable, { hook, rule }: Jump): boolean {
  const rules = table.get(hook) ?? [];
  const foreign = rules.findIndex((one) => !/ -j PISTIS-[0-9a-f]{12}-(OUT|IN|NO)$/.test(one));
  return rules.slice(0, foreign === -1 ? rules.length : foreign).includes(rule);
}

/** Input of `iptables-restore --noflush` that makes the firewall hold, whatever is left of an earlier one. */
export function applyText(table: FilterTable, { chains, jumps }: Firewall, key: string): string {
  const filled = chains.flatMap(({ name, rules }) => rules.map((rule) => `-A ${name} ${rule}`));
  const hung = [...jumps].reverse().map(({ hook, rule }) => `-I ${hook} 1 ${rule}`);
  const declared = chains.map(({ name }) => `:${name} - [0:0]`);
  return transaction([...declared, ...dockerUser(table), ...filled, ...unhung(table, key), ...hung]);
}

/** Input of `iptables-restore --noflush` after which nothing of this install is left; undefined when nothing is there. */
export function removeText(table: FilterTable, key: string): string | undefined {
  const names = [...table.keys()].filter((name) => name.startsWith(chainPrefix(key)));
  const lines = [...unhung(table, key), ...names.map((name) => `-F ${name}`), ...names.map((name) => `-X ${name}`)];
  return lines.length === 0 ? undefined : transaction(lines);
}

function transaction(lines: readonly string[]): string {
  return `*filter\n${lines.join("\n")}\nCOMMIT\n`;
}

/** As Docker makes it. Docker, started later, takes it as it is. */
function dockerUser(table: FilterTable): string[] {
  const { name, jump, end } = DOCKER_USER;
  const made = table.has(name) ? [] : [`:${name} - [0:0]`, `-A ${name} ${end}`];
  return table.get("FORWARD")?.includes(jump) ? made : [...made, `-I FORWARD 1 ${jump}`];
}

/** Own chains refer to each other too; those rules go with the chains. */
function unhung(table: FilterTable, key: string): string[] {
  const prefix = chainPrefix(key);
  const hooks = [...table].filter(([name]) => !name.startsWith(prefix));
  return hooks.flatMap(([name, rules]) =>
    rules.filter((rule) => rule.includes(` -j ${prefix}`)).map((rule) => `-D ${name} ${rule}`),
  );
}
