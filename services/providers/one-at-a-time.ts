/** What is asked about one sandbox is done in the order in which it was asked. */
export function oneAtATime() {
  const last = new Map<string, Promise<unknown>>();
  return <Result>(sandboxId: string, work: () => Promise<Result>): Promise<Result> => {
    const before = last.get(sandboxId) ?? Promise.resolve();
    const mine = before.then(work, work);
    const settled = mine.then(noted, noted).then(() => {
      if (last.get(sandboxId) === settled) last.delete(sandboxId);
    });
    last.set(sandboxId, settled);
    return mine;
  };
}

function noted(): void {
  // The caller of the earlier work has its outcome; here only its end counts.
}
