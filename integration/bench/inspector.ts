// The heap of another Node process, by its inspector: exact after a collection, where resident memory is not. What a program
// holds is told apart from its compiled code, which comes and goes by half a megabyte.
import { once } from "node:events";
import { type RawData, WebSocket } from "ws";
import { z } from "zod";

const targets = z.array(z.object({ webSocketDebuggerUrl: z.url() })).min(1);
const answer = z.object({ id: z.number(), result: z.record(z.string(), z.unknown()).optional() });
const chunk = z.object({
  method: z.literal("HeapProfiler.addHeapSnapshotChunk"),
  params: z.object({ chunk: z.string() }),
});
/** Nodes are rows of numbers: https://github.com/v8/v8/blob/main/src/profiler/heap-snapshot-generator.cc */
const heapSnapshot = z.object({
  snapshot: z.object({
    meta: z.object({ node_fields: z.array(z.string()), node_types: z.tuple([z.array(z.string())], z.unknown()) }),
  }),
  nodes: z.array(z.number()),
  strings: z.array(z.string()),
});
const HELD_TYPES = new Set(["object", "string", "concatenated string", "sliced string", "array", "closure", "number"]);
const ARRAY_BUFFER = "system / JSArrayBufferData";

export type Inspector = Readonly<{
  /** Objects, strings and buffers that are there after everything that can be collected was; no code. */
  heldBytes: () => Promise<number>;
  close: () => Promise<void>;
}>;

/** `port`: as given with --inspect. */
export async function openInspector(port: number): Promise<Inspector> {
  const found = targets.parse(await (await fetch(`http://127.0.0.1:${port}/json`)).json());
  const socket = new WebSocket(found[0]?.webSocketDebuggerUrl ?? "", { perMessageDeflate: false, maxPayload: 0 });
  await once(socket, "open");
  let last = 0;
  /** Resolves with the chunks that came before its answer. */
  const ask = (method: string): Promise<string[]> => {
    const id = ++last;
    const chunks: string[] = [];
    return new Promise((resolve) => {
      const hear = (message: RawData) => {
        const said: unknown = JSON.parse(String(message));
        const piece = chunk.safeParse(said);
        if (piece.success) chunks.push(piece.data.params.chunk);
        if (answer.safeParse(said).data?.id !== id) return;
        socket.off("message", hear);
        resolve(chunks);
      };
      socket.on("message", hear);
      socket.send(JSON.stringify({ id, method }));
    });
  };
  return {
    heldBytes: async () => {
      // What finalizers let go of is collected by the second.
      await ask("HeapProfiler.collectGarbage");
      await ask("HeapProfiler.collectGarbage");
      return heldIn((await ask("HeapProfiler.takeHeapSnapshot")).join(""));
    },
    close: async () => {
      const closed = once(socket, "close");
      socket.close();
      await closed;
    },
  };
}

function heldIn(text: string): number {
  const { snapshot, nodes, strings } = heapSnapshot.parse(JSON.parse(text));
  const { node_fields: fields, node_types: types } = snapshot.meta;
  const at = { type: fields.indexOf("type"), name: fields.indexOf("name"), size: fields.indexOf("self_size") };
  let held = 0;
  for (let index = 0; index < nodes.length; index += fields.length) {
    const type = types[0][nodes[index + at.type] ?? -1] ?? "";
    const name = strings[nodes[index + at.name] ?? -1];
    if (HELD_TYPES.has(type) || name === ARRAY_BUFFER) held += nodes[index + at.size] ?? 0;
  }
  return held;
}
