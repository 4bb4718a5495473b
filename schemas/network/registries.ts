/** The hosts that each shorthand of an allow list stands for (SPEC S62): where the tools of that language download from. */
export const registryHosts = {
  npm: ["registry.npmjs.org"],
  pypi: ["pypi.org", "files.pythonhosted.org"],
  crates: ["index.crates.io", "static.crates.io", "crates.io"],
  go: ["proxy.golang.org", "sum.golang.org"],
} as const satisfies { readonly [name: string]: readonly string[] };

export type RegistryName = keyof typeof registryHosts;

export const REGISTRY_NAMES = ["npm", "pypi", "crates", "go"] as const satisfies readonly RegistryName[];

export function isRegistryName(text: string): text is RegistryName {
  return Object.hasOwn(registryHosts, text);
}
