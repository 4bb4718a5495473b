// One thing at a time by name.

export type Locks = Readonly<{ hold: <Result>(name: string, work: () => Promise<Result>) => Promise<Result> }>;

export function openLocks(): Locks {
  const last = new Map<string, Promise<void>>();
  return {
    async hold(name, work) {
      const before = last.get(name) ?? Promise.resolve();
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const tail = before.then(() => released);
      last.set(name, tail);
      await before;
      try {
        return await work();
      } finally {
        release();
        if (last.get(name) === tail) last.delete(name);
      }
    },
  };
}
