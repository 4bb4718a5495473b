// What every part of a running turn uses.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import type { Model } from "../models/model.ts";
import type { SessionRecord } from "../session/record.ts";
import type { Session, Working } from "../session/session.ts";
import type { Toolbox } from "../tools/toolbox.ts";
import type { TurnLive } from "./live.ts";
import type { Workplace } from "./workplace.ts";

export type TurnContext = Readonly<{
  record: SessionRecord;
  epoch: number;
  model: Model;
  tools: Toolbox;
  workplace: Workplace;
  live: TurnLive;
  config: PistisConfig;
  log: Log;
  signals: TurnSignals;
}>;

export type TurnSignals = Readonly<{
  /** Another brain owns the turn, or this one stops working: leave everything as it is and send nothing more. */
  abandon: AbortSignal;
  /** The user pressed Stop or ended the session. */
  halt: AbortSignal;
}>;

/** The turn is not this brain's any more, or the brain is stopping; the turn itself goes on elsewhere. */
export class Abandoned extends Error {
  override readonly name = "Abandoned";
}

/** The session of a turn that this brain believes it owns; the next append finds out whether it does. */
export function working(state: Session): Working {
  if (state.status === "working") return state;
  throw new Refusal("deposed", "The turn is over");
}
