import { InvalidArgumentError } from "commander";

/** A parser for an option that takes a whole number in a range. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Allowed is a whole number from ${min} to ${max}.`);
  };
}
