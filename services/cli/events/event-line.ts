// The ledger as lines: sequence, time, session, writer, event, and the few facts that tell it from others. Pure.
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { authorityText } from "#schemas/network/authority.ts";
import { outcomeText } from "../run/wording.ts";
import { bytesText, durationText } from "../terminal/quantities.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { shownLine } from "../terminal/untrusted.ts";

const SEQUENCE_WIDTH = 6;
const WRITER_WIDTH = 9;
const TYPE_WIDTH = 24;
const FACTS_CHARACTERS_MAX = 160;

export function eventLines(message: LedgerMessageView, paint: Terminal["paint"]): string[] {
  const start = [String(message.sequence).padStart(SEQUENCE_WIDTH), message.at, message.session];
  return message.events.map((event) => {
    const facts = shownLine(factsOf(event), FACTS_CHARACTERS_MAX);
    const head = `${paint("dim", start.join("  "))}  ${message.writer.padEnd(WRITER_WIDTH)}`;
    return facts === ""
      ? `${head}  ${paint("bold", event.type)}`
      : `${head}  ${paint("bold", event.type.padEnd(TYPE_WIDTH))}  ${facts}`;
  });
}

const plain: Terminal["paint"] = (_style, text) => text;

function factsOf(event: PistisEvent): string {
  switch (event.type) {
    case "SessionCreated":
      return [event.data.title, event.data.model, event.data.repository?.url].filter(Boolean).join(" · ");
    case "MessagePosted":
      return `${event.data.messageId} ${event.data.text}`;
    case "TurnStarted":
    case "TurnTakenOver":
      return `${event.data.turnId} epoch ${event.data.epoch} on ${event.data.brain}`;
    case "ModelReplied":
      return replyFacts(event.data);
    case "ToolStarted":
      return `${event.data.callId} ${event.data.tool}`;
    case "ToolDone":
      return doneFacts(event.data);
    case "EgressProbed":
      return probedFacts(event.data);
    case "TurnEnded":
      return [event.data.reason, event.data.failure?.code].filter(Boolean).join(" ");
    case "EgressLogged":
      return egressFacts(event.data);
    default:
      return otherFacts(event);
  }
}

type DataOf<Type extends PistisEvent["type"]> = Extract<PistisEvent, { type: Type }>["data"];

function replyFacts({ content, model, requestMs }: DataOf<"ModelReplied">): string {
  const parts = content.map((part) =>
    part.type === "tool-call" ? `${part.tool}(${JSON.stringify(part.input)})` : part.text,
  );
  return `${model} ${durationText(requestMs)} ${parts.join(" ")}`;
}

function doneFacts({ callId, outcome, output, durationMs }: DataOf<"ToolDone">): string {
  const size = output === undefined ? "" : ` ${bytesText(output.bytes)}`;
  return `${callId} ${outcomeText(outcome, plain)} ${durationText(durationMs)}${size}`;
}

function probedFacts({ generation, passed, findings, durationMs }: DataOf<"EgressProbed">): string {
  const wrong = findings.filter(({ ok }) => !ok).map(({ target, outcome }) => `${target} (${outcome})`);
  const result = passed ? `passed ${findings.length} findings` : `failed ${wrong.join(", ")}`;
  return `generation=${generation} ${durationText(durationMs)} ${result}`;
}

function egressFacts({ via, host, port, allowed, reason, ...data }: DataOf<"EgressLogged">): string {
  const target = port === 0 ? host : authorityText({ host, port });
  const verdict = `${allowed ? "allowed" : "refused"} ${reason}`;
  const sizes = `${bytesText(data.bytesUp)} up ${bytesText(data.bytesDown)} down`;
  return `${via} ${target} ${verdict} ${sizes} ${durationText(data.durationMs)}`;
}

/** Small events: their own plain values, by name. */
function otherFacts(event: PistisEvent): string {
  return Object.entries(event.data)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}
