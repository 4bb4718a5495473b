// A process to kill in tests: creates the sandboxes that it is given, at once, and says each that it has done.
import { z } from "zod";
import { silentLog } from "#shared/service/log.ts";
import type { StartSandbox } from "../../provider.ts";
import type { DockerSetting } from "../docker.ts";
import { openDockerProvider } from "../docker-provider.ts";

const given = z.object({
  setting: z.custom<Omit<DockerSetting, "log">>((value) => typeof value === "object"),
  requests: z.array(z.custom<StartSandbox>((value) => typeof value === "object")),
});

const { setting, requests } = given.parse(JSON.parse(process.argv[2] ?? ""));
const provider = await openDockerProvider({ ...setting, log: silentLog });
process.stdout.write("open\n");
await Promise.all(
  requests.map(async (request) => {
    await provider.create(request);
    process.stdout.write("created\n");
  }),
);
process.stdin.resume();
