import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Decider } from "#shared/ledger/handle-command.ts";

/** given(events).when(command).then(events) over a pure decider. */
export function specify<State, Command, Decided extends PistisEvent>(decider: Decider<State, Command, Decided>) {
  const given = (...history: PistisEvent[]) => ({
    when: (command: Command) => {
      const decide = () => decider.decide(history.reduce(decider.evolve, decider.initialState), command);
      return {
        then: (...expected: PistisEvent[]) => expect(decide()).to.deep.equal(expected),
        thenNothing: () => expect(decide()).to.deep.equal([]),
        thenRefused: (code: string) => expect(decide).to.throw(Refusal).with.property("code", code),
      };
    },
  });
  return { given };
}
