import { z } from "zod";
import { type ContainerRules, fillerBody, sandboxBody } from "./containers/create-body.ts";
import { newName, SANDBOX_NAME } from "./labels.ts";
import { type NetworkRules, networkBody } from "./networks/create-body.ts";
import { pistisdVolumeBody, startVolumeBody } from "./volumes/create-body.ts";

export type Rules = ContainerRules & NetworkRules;
export type Bodies = ReturnType<typeof bodiesOf>;

/** Every body that an install may send, and the names that its containers get: made once, because that takes longer than a check. */
export function bodiesOf(rules: Rules) {
  const { key } = rules;
  return {
    sandbox: sandboxBody(rules),
    sandboxQuery: z.strictObject({ name: newName(key, SANDBOX_NAME) }),
    filler: fillerBody(rules),
    fillerQuery: z.strictObject({ name: newName(key, "filler-[0-9a-f]{12}") }),
    network: networkBody(rules),
    pistisdVolume: pistisdVolumeBody(key),
    startVolume: startVolumeBody(key),
  };
}
