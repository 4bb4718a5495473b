// A process to kill in tests: starts one sandbox in the given state folder, says its process 1, and stays.
import { silentLog } from "#shared/service/log.ts";
import { startRequest } from "../../provider.contract.ts";
import { openLocalProvider } from "../local-provider.ts";
import { readLife } from "../sandbox-folder.ts";

const [stateDir = "", installId = "", relaySocketFolder = "", pistisdFolder = ""] = process.argv.slice(2);
const setting = { stateDir, installId, relaySocketFolder, pistisdFolder, readOnly: {}, log: silentLog };
const provider = await openLocalProvider(setting);
const request = startRequest();
await provider.create(request);
process.stdout.write(`${JSON.stringify({ request, life: await readLife(stateDir, request.sandboxId) })}\n`);
process.stdin.resume();
