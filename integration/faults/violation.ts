// What a check may say that does not hold.
export const INVARIANTS = ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"] as const;
export type Invariant = (typeof INVARIANTS)[number];

export type Violation = Readonly<{
  of: Invariant | "chain" | "mirror" | "delivery" | "rest";
  /** Empty where it is about no one session. */
  session: string;
  text: string;
}>;
