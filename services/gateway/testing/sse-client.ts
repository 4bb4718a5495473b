// A client of Server-Sent Events for tests: what comes waits until the test takes it.
import { get, type IncomingMessage } from "node:http";
import { createParser } from "eventsource-parser";
import { TOKEN } from "./world.ts";

export type SseEvent = Readonly<{ event: string | undefined; id: string | undefined; data: string }>;

export type SseClient = Readonly<{
  status: number;
  response: IncomingMessage;
  /** The next event. Rejects when the stream ends first. */
  next: () => Promise<SseEvent>;
  /** The ids of the next `count` ledger events. */
  ids: (count: number) => Promise<number[]>;
  /** Resolves at the next comment, which is what a heartbeat is. */
  comment: () => Promise<string>;
  ended: Promise<void>;
  close: () => void;
}>;

export async function connectSse(url: string, headers: { [name: string]: string } = {}): Promise<SseClient> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = get(url, { agent: false, headers: { authorization: `Bearer ${TOKEN}`, ...headers } }, resolve);
    request.once("error", reject);
  });
  const events = queueOf<SseEvent>();
  const comments = queueOf<string>();
  const parser = createParser({
    onEvent: ({ event, id, data }) => events.put({ event, id, data }),
    onComment: (comment) => comments.put(comment),
  });
  response.setEncoding("utf8").on("data", (text: string) => parser.feed(text));
  const ended = new Promise<void>((resolve) => response.once("close", resolve));
  response.on("error", events.end);
  ended.then(events.end, events.end);
  return {
    status: response.statusCode ?? 0,
    response,
    next: events.take,
    ids: async (count) => {
      const ids: number[] = [];
      while (ids.length < count) {
        const { event, id } = await events.take();
        if (event === "ledger") ids.push(Number(id));
      }
      return ids;
    },
    comment: comments.take,
    ended,
    close: () => response.destroy(),
  };
}

function queueOf<Item>() {
  const waiting: Item[] = [];
  const takers: PromiseWithResolvers<Item>[] = [];
  let ended = false;
  return {
    put: (item: Item) => {
      const taker = takers.shift();
      if (taker === undefined) waiting.push(item);
      else taker.resolve(item);
    },
    take: (): Promise<Item> => {
      const item = waiting.shift();
      if (item !== undefined) return Promise.resolve(item);
      if (ended) return Promise.reject(new Error("The stream ended"));
      const taker = Promise.withResolvers<Item>();
      takers.push(taker);
      return taker.promise;
    },
    end: () => {
      ended = true;
      for (const taker of takers.splice(0)) taker.reject(new Error("The stream ended"));
    },
  };
}
