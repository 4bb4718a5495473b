// The firewall of sandboxes with internet, as iptables rules for the whole pool that their networks come from. The rules
// are static: a sandbox that starts or ends changes none, so there is no moment at which one runs without them.
//
// Docker leaves its chain DOCKER-USER to others and evaluates it before its own rules, also after a restart. Traffic to
// the host itself never is in FORWARD, so INPUT has a rule of its own. Refused traffic is answered at once, not dropped:
// who tries it, the probe of each new sandbox among them, has not to wait for a time-out.
import { CLOSED_RANGES } from "#shared/network/closed-ranges.ts";

export type FirewallSettings = Readonly<{
  /** Stands for the install: two installs on one engine have rules of their own. */
  key: string;
  /** `sandboxes.docker.subnets` */
  pool: string;
  /** Closed ranges that sandboxes may reach all the same. Never the host and never another sandbox. */
  except: readonly string[];
}>;

/** `hook`: the chain that others own and ours hangs in. */
export type Jump = Readonly<{ hook: "DOCKER-USER" | "INPUT"; rule: string }>;
export type Chain = Readonly<{ name: string; rules: readonly string[] }>;
/** In the words of `iptables -S`. */
export type Firewall = Readonly<{ chains: readonly Chain[]; jumps: readonly Jump[] }>;

/** DOCKER-USER as Docker makes it, for when Docker was not started yet. */
export const DOCKER_USER = { name: "DOCKER-USER", jump: "-j DOCKER-USER", end: "-j RETURN" } as const;

/** The kernel sends few ICMP errors a second to one address, and any number of resets. */
const REFUSALS = ["-p tcp -j REJECT --reject-with tcp-reset", "-j REJECT --reject-with icmp-admin-prohibited"];

export function firewallOf({ key, pool, except }: FirewallSettings): Firewall {
  const out = `${chainPrefix(key)}OUT`;
  const into = `${chainPrefix(key)}IN`;
  const no = `${chainPrefix(key)}NO`;
  return {
    chains: [
      { name: no, rules: REFUSALS },
      { name: out, rules: outRules({ pool, except, no }) },
      { name: into, rules: ["-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN", `-j ${no}`] },
    ],
    jumps: [
      { hook: "DOCKER-USER", rule: `-s ${pool} -j ${out}` },
      { hook: "DOCKER-USER", rule: `-d ${pool} -j ${into}` },
      { hook: "INPUT", rule: `-s ${pool} -j ${no}` },
    ],
  };
}

/** Other sandboxes come first, so that no exception opens them. What is in no rule is the internet. */
function outRules({ pool, except, no }: { pool: string; except: readonly string[]; no: string }): string[] {
  const allowed = except.map((range) => `-d ${range} -j RETURN`);
  return [`-d ${pool} -j ${no}`, ...allowed, ...CLOSED_RANGES.map((range) => `-d ${range} -j ${no}`)];
}

/** At most 28 characters with what follows it. */
export function chainPrefix(key: string): string {
  return `PISTIS-${key}-`;
}

/** The same as commands for a shell, which may be run again at any time. */
export function firewallCommands({ chains, jumps }: Firewall): string {
  const lines = chains.flatMap(({ name, rules }) => [
    `iptables -w -N ${name} 2>/dev/null || iptables -w -F ${name}`,
    ...rules.map((rule) => `iptables -w -A ${name} ${rule}`),
  ]);
  const hung = jumps.map(
    ({ hook, rule }) => `iptables -w -C ${hook} ${rule} 2>/dev/null || iptables -w -I ${hook} 1 ${rule}`,
  );
  return `${[...lines, ...hung].join("\n")}\n`;
}
