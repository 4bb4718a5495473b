// I4: once a brain with a newer epoch said hello, nothing of an older one is done any more, also after a
// restart of the daemon.

import { WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { State } from "../state/state.ts";

export type EpochFence = Readonly<{
  /** Throws Refusal `epoch_stale`. Keeps a newer epoch on disk before it returns. */
  raise: (epoch: number) => void;
  /** Throws Refusal `epoch_stale` when a newer brain came. */
  check: (epoch: number) => void;
}>;

export function openEpochFence(state: Pick<State, "epoch" | "keepEpoch">): EpochFence {
  const check = (epoch: number) => {
    if (epoch >= state.epoch()) return;
    throw new Refusal(WireCode.epochStale, `Epoch ${epoch} is over: ${state.epoch()} was seen`, {
      next: "Another brain owns this session now; stop",
    });
  };
  return {
    raise: (epoch) => {
      check(epoch);
      if (epoch === state.epoch()) return;
      step("pistisd.epoch.raising");
      state.keepEpoch(epoch);
      step("pistisd.epoch.kept");
    },
    check,
  };
}
