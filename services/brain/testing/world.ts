// A brain with everything around it in one process: a ledger in memory, sandboxes that are folders, and the few
// things that gateway, scheduler and publisher would write.

import { type PistisConfig, pistisConfig } from "#schemas/config/pistis-config.ts";
import type { EventOf, EventType, PistisEvent, Writer } from "#schemas/ledger/event.ts";
import type { ReplyPart } from "#schemas/ledger/events/brain.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { newId } from "#shared/ids/ids.ts";
import { type Ledger, type LedgerMessage, VersionConflict } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import { memorySnapshots } from "#shared/ledger/snapshots.ts";
import type { OpenLink } from "#shared/sandbox-link/link.ts";
import { silentLog } from "#shared/service/log.ts";
import type { RunningService } from "#shared/service/service.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { startBrain } from "../brain.ts";
import type { Json } from "../session/history.ts";
import { attention } from "../session/questions.ts";
import { evolve, initialState, type Session } from "../session/session.ts";
import { MemoryLeases } from "./memory-leases.ts";
import { SandboxPeer } from "./sandbox-peer.ts";

export type WorldOptions = Readonly<{
  /** As it stands in pistis.json. */
  config?: object;
  /** False: nobody answers SandboxNeeded. */
  schedules?: boolean;
  /** False: nobody probes the network of sandboxes. */
  probes?: boolean;
}>;

export type BrainOptions = Readonly<{
  openLink?: OpenLink;
  /** Wraps the brain's own ledger, to watch or to hold an append. */
  through?: (ledger: Ledger) => Ledger;
}>;

export class World {
  readonly ledger = memoryLedger();
  readonly leases = new MemoryLeases();
  readonly snapshots = memorySnapshots();
  readonly live: LiveMessage[] = [];
  /** Called with every live message; tests wait here for output to appear. */
  onLive: (message: LiveMessage) => void = () => undefined;
  /** By sandbox, the one of its newest generation. */
  readonly peers = new Map<string, SandboxPeer>();
  readonly config: PistisConfig;
  readonly #sessions = new Set<string>();
  readonly #opened: SandboxPeer[] = [];
  readonly #brains: RunningService[] = [];
  readonly #closing = new AbortController();
  readonly #scheduler: Promise<void>;
  readonly #probes: boolean;

  constructor({ config = {}, schedules = true, probes = true }: WorldOptions = {}) {
    this.#probes = probes;
    this.config = pistisConfig.parse(config);
    this.#scheduler = schedules ? this.#schedule() : Promise.resolve();
  }

  async startBrain(brainName = "brain-a", options: BrainOptions = {}): Promise<RunningService> {
    const { openLink = this.openLink, through = (ledger: Ledger) => ledger } = options;
    const brain = await startBrain({
      ledger: through(this.ledger.open("brain")),
      feed: this.ledger.feed,
      leases: this.leases.open(brainName),
      snapshots: this.snapshots,
      openLink,
      live: { publish: (_session, message) => this.#seeLive(message) },
      config: this.config,
      unsettled: async () => this.unsettled(),
      brainName,
      log: silentLog,
    });
    this.#brains.push(brain);
    return brain;
  }

  #seeLive(message: LiveMessage): void {
    this.live.push(message);
    this.onLive(message);
  }

  readonly openLink: OpenLink = (request) => {
    const peer = this.peers.get(request.sandboxId);
    if (peer === undefined) throw new Error(`No sandbox ${request.sandboxId}`);
    return peer.openLink(request);
  };

  async createSession(data: Partial<EventOf<"SessionCreated">["data"]> = {}): Promise<string> {
    const session = newId("session");
    this.#sessions.add(session);
    await this.append("gateway", session, {
      type: "SessionCreated",
      data: { title: "A test", model: "script", provider: "local", ...data },
    });
    return session;
  }

  async post(session: string, text: string, delivery: "steer" | "queue" = "steer"): Promise<string> {
    const messageId = newId("message");
    await this.append("gateway", session, { type: "MessagePosted", data: { messageId, text, delivery } });
    return messageId;
  }

  async interrupt(session: string): Promise<void> {
    const { turnId } = (await this.first(session, "TurnStarted", -1)).data;
    await this.append("gateway", session, { type: "InterruptRequested", data: { turnId } });
  }

  /** Appends as another service does: on whatever the session is at. */
  async append(writer: Writer, session: string, ...events: PistisEvent[]): Promise<LedgerMessage> {
    const ledger = this.ledger.open(writer);
    for (;;) {
      const { version } = await ledger.read(session);
      try {
        return await ledger.append(session, version, events, { correlationId: session, causationId: null });
      } catch (error) {
        if (!(error instanceof VersionConflict)) throw error;
      }
    }
  }

  async events(session: string): Promise<PistisEvent[]> {
    const { messages } = await this.ledger.open("brain").read(session);
    return messages.flatMap(({ events }) => events);
  }

  /** Waits for the `nth` event of the type (0: the first one); -1: the newest one that is there already. */
  async first<Type extends EventType>(session: string, type: Type, nth = 0): Promise<EventOf<Type>> {
    if (nth < 0) {
      const newest = (await this.events(session)).filter((event) => isOf(event, type)).at(-1);
      if (newest === undefined) throw new Error(`No ${type} in ${session}`);
      return newest;
    }
    let seen = 0;
    const stop = new AbortController();
    for await (const { events } of this.ledger.feed.follow({ after: 0, session, signal: stop.signal })) {
      for (const event of events) if (isOf(event, type) && seen++ === nth) return event;
    }
    throw new Error(`The feed ended before ${type}`);
  }

  async peerOf(session: string): Promise<SandboxPeer> {
    const { sandboxId } = (await this.first(session, "SandboxJoined")).data;
    const peer = this.peers.get(sandboxId);
    if (peer === undefined) throw new Error(`No peer ${sandboxId}`);
    return peer;
  }

  /** Another generation is another sandbox under the same id: a session's sandbox keeps it for life. */
  async joinSandbox(session: string, generation = 1): Promise<SandboxPeer> {
    const before = (await this.events(session)).find((event) => isOf(event, "SandboxJoined"));
    const peer = await SandboxPeer.open(before?.data.sandboxId ?? newId("sandbox"));
    this.#opened.push(peer);
    this.peers.set(peer.sandboxId, peer);
    const { sandboxId, bootId } = peer;
    const report = reportPlace(1);
    await this.append("scheduler", session, { type: "SandboxJoined", data: { sandboxId, generation, bootId, report } });
    if (this.#probes) await this.probe(session, peer, generation);
    return peer;
  }

  /** What the scheduler stores when it had the sandbox probed. */
  async probe(session: string, { sandboxId }: SandboxPeer, generation = 1, passed = true): Promise<void> {
    const outcome = passed ? ("unreachable" as const) : ("answered" as const);
    const findings = [{ target: "a metadata address", expected: "closed" as const, outcome, ok: passed }];
    const data = { sandboxId, generation, passed, findings, durationMs: 1 };
    await this.append("scheduler", session, { type: "EgressProbed", data });
  }

  async close(): Promise<void> {
    await Promise.all(this.#brains.map((brain) => brain.close()));
    this.#closing.abort();
    await this.#scheduler;
    await Promise.all(this.#opened.map((peer) => peer.close()));
  }

  /** Sessions with an open turn or a message that waits for one, as the read model would say. */
  async unsettled(): Promise<string[]> {
    const found = await Promise.all(
      [...this.#sessions].map(async (session) => {
        const state = (await this.events(session)).reduce<Session>(evolve, initialState);
        return attention(state) === "none" ? [] : [session];
      }),
    );
    return found.flat();
  }

  /** Writes what a brain that died left behind: an open turn whose calls were started and never answered. */
  async leaveOpenCalls(
    session: string,
    epoch: number,
    ...tools: Array<{ callId: string; tool: string; input: Json }>
  ): Promise<void> {
    const { messageId } = (await this.first(session, "MessagePosted", -1)).data;
    const { sandboxId } = (await this.first(session, "SandboxJoined")).data;
    const turn = { turnId: `trn_dead${epoch}`, epoch };
    const content = tools.map((call): ReplyPart => ({ type: "tool-call", modelCallId: call.callId, ...call }));
    const usage = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 };
    const reply = { replyId: "rpl_dead", model: "script", content, usage, costUsd: 0, requestMs: 0 };
    await this.append(
      "brain",
      session,
      { type: "TurnStarted", data: { ...turn, brain: "dead", messageIds: [messageId] } },
      { type: "ModelReplied", data: { turnId: turn.turnId, ...reply, finishReason: "tool-calls" } },
      ...tools.map(
        ({ callId, tool }): PistisEvent => ({ type: "ToolStarted", data: { ...turn, callId, tool, sandboxId } }),
      ),
    );
  }

  async #schedule(): Promise<void> {
    const { signal } = this.#closing;
    for await (const { session, events } of this.ledger.feed.follow({ after: 0, signal })) {
      if (!events.some(({ type }) => type === "SandboxNeeded")) continue;
      const made = (await this.events(session)).filter(({ type }) => type === "SandboxJoined").length;
      await this.joinSandbox(session, made + 1);
    }
  }
}

function isOf<Type extends EventType>(event: PistisEvent, type: Type): event is EventOf<Type> {
  return event.type === type;
}
