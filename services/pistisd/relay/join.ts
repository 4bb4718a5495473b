// The join token works once and is traded for a pass, which is kept before anything else happens.
import { setTimeout as delay } from "node:timers/promises";
import { joined, relayPaths } from "#schemas/wire/relay-http.ts";
import { step } from "#shared/faults/step.ts";
import type { Log } from "#shared/service/log.ts";
import { JOIN_RETRY_MS_MAX } from "../limits.ts";
import type { State } from "../state/state.ts";
import type { RelayAddress } from "./address.ts";
import { askRelay, type RelayAnswer } from "./http.ts";

type JoinRequest = Readonly<{
  address: RelayAddress;
  token: string;
  state: Pick<State, "keepPass">;
  signal: AbortSignal;
  log: Log;
}>;

/** Resolves when a pass is kept, `refused` when the token does not work. Tries again while the relay is away. */
export async function join({ address, token, state, signal, log }: JoinRequest): Promise<"joined" | "refused"> {
  for (let waitMs = 50; ; waitMs = Math.min(waitMs * 2, JOIN_RETRY_MS_MAX)) {
    signal.throwIfAborted();
    const answer = await tryOnce(address, token, log);
    if (answer?.status === 200) {
      step("pistisd.join.traded");
      state.keepPass(joined.parse(JSON.parse(answer.body)).pass);
      return "joined";
    }
    if (answer !== undefined && isFinal(answer.status)) {
      log.error({ status: answer.status }, "The relay refused the join token");
      return "refused";
    }
    await delay(waitMs * (0.5 + Math.random()), undefined, { signal });
  }
}

function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

async function tryOnce(address: RelayAddress, token: string, log: Log): Promise<RelayAnswer | undefined> {
  try {
    return await askRelay(address, { method: "POST", path: relayPaths.join, bearer: token });
  } catch (error) {
    log.warn({ problem: String(error) }, "The relay cannot be reached to join; trying again");
    return undefined;
  }
}
