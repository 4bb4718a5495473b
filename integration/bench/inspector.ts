// The heap of another Node process, by its inspector: exact after a collection, where resident memory is not.
import { once } from "node:events";
import { WebSocket } from "ws";
import { z } from "zod";

const targets = z.array(z.object({ webSocketDebuggerUrl: z.url() })).min(1);
const answer = z.object({ id: z.number(), result: z.record(z.string(), z.unknown()).optional() });
const usage = z.object({ usedSize: z.number() });

export type Inspector = Readonly<{
  /** What is used after everything that can be collected was. */
  heapBytes: () => Promise<number>;
  close: () => Promise<void>;
}>;

/** `port`: as given with --inspect. */
export async function openInspector(port: number): Promise<Inspector> {
  const found = targets.parse(await (await fetch(`http://127.0.0.1:${port}/json`)).json());
  const socket = new WebSocket(found[0]?.webSocketDebuggerUrl ?? "", { perMessageDeflate: false });
  await once(socket, "open");
  let last = 0;
  const ask = async (method: string): Promise<Record<string, unknown>> => {
    const id = ++last;
    socket.send(JSON.stringify({ id, method }));
    for (;;) {
      const [message] = await once(socket, "message");
      const said = answer.safeParse(JSON.parse(String(message)));
      if (said.success && said.data.id === id) return said.data.result ?? {};
    }
  };
  return {
    heapBytes: async () => {
      // What finalizers let go of is collected by the second.
      await ask("HeapProfiler.collectGarbage");
      await ask("HeapProfiler.collectGarbage");
      return usage.parse(await ask("Runtime.getHeapUsage")).usedSize;
    },
    close: async () => {
      const closed = once(socket, "close");
      socket.close();
      await closed;
    },
  };
}
