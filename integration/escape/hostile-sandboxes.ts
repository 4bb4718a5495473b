// Sandboxes that are hostile from their first moment, and a well-behaved one with pistisd beside them, all real containers
// that the provider made, at one real relay, in this process or apart from it.

import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { openDockerProvider } from "#services/providers/docker/docker-provider.ts";
import { openDockerGuests, removeInstalls } from "#services/providers/docker/testing/docker-guests.ts";
import { contractSpec, startRequest } from "#services/providers/provider.contract.ts";
import type { SandboxRef } from "#services/providers/provider.ts";
import { linksTo, registerToken, startRelayForTest } from "#services/relay/tests/relay-under-test.ts";
import { newSecret } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { Resources } from "#shared/service/resources.ts";
import { PISTISD_FOLDER } from "../testing/sandboxes.ts";
import { attachPeer, attachPeerApart, startRelayApart } from "./apart.ts";
import { perlProgram } from "./guest-program.ts";

const JOIN_MS = 20_000;

export type HostileSandbox = Readonly<{
  ref: SandboxRef;
  /** As it was given, and traded once. */
  token: string;
  pass: string;
  /** Runs a program of `guest-program.ts` in it and answers what that printed. */
  perl: (text: string) => Promise<string>;
  sh: (script: string) => Promise<string>;
}>;

export type HostileSandboxes = Awaited<ReturnType<typeof openHostileSandboxes>>;

/** `cpuCores`: of a hostile one. */
export async function openHostileSandboxes({ apart = false, cpuCores = 1 } = {}) {
  const resources = new Resources();
  try {
    const guests = resources.add("guests", await openDockerGuests(), (it) => it.dispose());
    const { setting, provider } = guests;
    const socketFolder = setting.relaySocketFolder;
    const started = apart ? await startRelayApart(socketFolder) : await startRelayForTest({ socketFolder });
    const relay = resources.add("relay", started, (it) => it.close());
    const openLink = linksTo(relay);

    const open = async (): Promise<HostileSandbox> => {
      const request = startRequest({ joinToken: newSecret(), spec: { ...contractSpec, cpuCores } });
      const { sandboxId, joinToken: token } = request;
      await registerToken(relay, sandboxId, { token });
      await provider.create(request);
      const sh = (script: string) => guests.run(sandboxId, script);
      const given = { pass: "", token, socket: relaySocketName(sandboxId) };
      const perl = (text: string) => sh(`perl - <<'END-OF-PROGRAM'\n${perlProgram(text, given)}END-OF-PROGRAM`);
      const text = `my $s = dial(); print $s "POST /v1/join HTTP/1.1\\r\\nhost: r\\r\\nconnection: close\\r\\nauthorization: Bearer $token\\r\\n\\r\\n"; local $/; print <$s>`;
      given.pass = /"pass":"([^"]+)"/.exec(await perl(text))?.[1] ?? "";
      return { ref: request, token, pass: given.pass, perl, sh };
    };

    /** A server-side peer of a sandbox that takes whatever comes. Its channel is 1 when it is the first. */
    const attach = async ({ sandboxId }: SandboxRef): Promise<void> => {
      if (apart) resources.add("peer", await attachPeerApart(relay.wsUrl, sandboxId), (it) => it.close());
      else resources.add("peer", await attachPeer(relay.wsUrl, sandboxId), (it) => it.terminate());
    };

    /** A sandbox of another session, with pistisd. */
    const openBystander = async (): Promise<SandboxLink> => {
      const installId = newSecret();
      resources.add("bystander", installId, (it) => removeInstalls(guests.cli, [it]));
      const own = await openDockerProvider({ ...setting, installId, pistisdFolder: PISTISD_FOLDER });
      resources.add("provider of the bystander", own, (it) => it.close());
      const request = startRequest({ joinToken: newSecret() });
      await registerToken(relay, request.sandboxId, { token: request.joinToken });
      await own.create(request);
      const link = openLink({ sandboxId: request.sandboxId, role: "brain", epoch: 1 });
      resources.add("link", link, (it) => it.close());
      await link.ready(JOIN_MS);
      return link;
    };

    return { relay, open, attach, openBystander, close: () => resources.close() };
  } catch (error) {
    await resources.close();
    throw error;
  }
}
