import { z } from "zod";
import { newLabels, newName, PISTISD_NAME, SANDBOX_NAME } from "../labels.ts";

// No driver and no option in either: those can make a volume stand for a folder of the host.

/** pistisd's files. */
export function pistisdVolumeBody(key: string) {
  return z.strictObject({ Name: newName(key, PISTISD_NAME), Labels: newLabels(key, "pistisd") });
}

/** An empty volume whose labels note that a start was asked for. */
export function startVolumeBody(key: string) {
  return z.strictObject({
    Name: newName(key, `${SANDBOX_NAME}-tsk_[0-9a-z]{1,64}`),
    Labels: newLabels(key, "start"),
  });
}
