// A model with a small window, on a server of its own: the brain has to shorten, summarise and cut its history while
// faults happen. It answers a message with a command or two whose output fills the window, and then with a sentence.
import { z } from "zod";
import { type ServedReply, startModelServer } from "#services/brain/testing/model-server.ts";
import type { ConfigFile } from "../testing/running-install.ts";
import { faultsOfRequest } from "./model-requests.ts";
import { fillerCommand, markCommand } from "./observed.ts";
import type { Random } from "./random.ts";

const NAME = "short-memory";
/** As small as it can be: tools and instructions alone are a quarter of it. */
const CONTEXT_TOKENS = 8_000;
/** Of the whole request, which is half again as long as what the brain counts: it says about what the brain estimates. */
const BYTES_PER_TOKEN = 5;
const OUTPUT_TOKENS_MAX = 500;
/** Below what is left of an old result: shortening results is not enough, and a summary is asked for. */
const FILLER_BYTES_MAX = 1_900;
const CALLS_PER_TURN_MAX = 3;
const CALL_AGAIN = 0.7;

const request = z.object({
  messages: z.array(z.object({ role: z.string() })),
  tools: z.array(z.unknown()).optional(),
});

export type ShortMemoryModel = Readonly<{
  name: string;
  /** What was wrong with the requests that came. */
  faults: readonly string[];
  /** `models` of pistis.json. */
  config: NonNullable<ConfigFile["models"]>;
  close: () => Promise<void>;
}>;

export async function openShortMemoryModel(random: Random): Promise<ShortMemoryModel> {
  const faults: string[] = [];
  const server = await startModelServer(({ body }, count) => {
    faults.push(...faultsOfRequest(body));
    return {
      ...reply(random, request.parse(JSON.parse(body)), count),
      usage: { input: Math.ceil(body.length / BYTES_PER_TOKEN), output: 1 },
    };
  });
  return {
    name: NAME,
    faults,
    config: {
      [NAME]: {
        ...{ api: "openai-compatible", model: NAME, baseUrl: server.url },
        ...{ contextTokens: CONTEXT_TOKENS, outputTokensMax: OUTPUT_TOKENS_MAX },
      },
    },
    close: server.close,
  };
}

/** A request without tools is one for a summary. */
function reply(random: Random, { messages, tools = [] }: z.output<typeof request>, count: number): ServedReply {
  if (tools.length === 0) return { kind: "reply", text: "What was before is done and was seen to work." };
  const sinceUser = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1);
  const results = sinceUser.filter(({ role }) => role === "tool").length;
  if (results >= CALLS_PER_TURN_MAX || !random.chance(results === 0 ? 1 : CALL_AGAIN)) {
    return { kind: "reply", text: "That is done." };
  }
  // A request that is made again gets another command: only a call that the ledger holds is ever run.
  const id = `m${count}-${random.between(0, 2 ** 30).toString(36)}`;
  const filler = fillerCommand(random.between(500, FILLER_BYTES_MAX));
  const command = `${markCommand(id, random.between(0, 20) / 100)}; ${filler}`;
  return { kind: "reply", calls: [{ id: `call-${count}`, name: "bash", input: { command } }] };
}
