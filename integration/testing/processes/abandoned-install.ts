// A program for a test: it starts parts of an install, pauses them all, says which processes there are, and dies
// without a chance to clean up.
import { openServiceProcesses } from "../service-processes.ts";
import { identify, treeOf } from "./process-tree.ts";

const install = await openServiceProcesses();
await install.start("relay");
for (const name of ["nats-server", "postgres", "relay"] as const) install.pause(name);
const members = identify(treeOf(process.pid).slice(1));
process.stdout.write(JSON.stringify({ members, folder: install.folder }), () => process.kill(process.pid, "SIGKILL"));
