// The tasks that a test's provider was sent.
import type { ProviderTask } from "#schemas/provider/task.ts";

export type Tasks = ReturnType<typeof collectTasks>;

/** `of` resolves with the nth task of that kind for the session, now or when it comes. */
export function collectTasks() {
  const all: ProviderTask[] = [];
  const looking = new Set<() => void>();
  const find = (session: string, op: ProviderTask["op"], nth: number) =>
    all.filter((task) => task.session === session && task.op === op)[nth - 1];
  return {
    add(task: ProviderTask): void {
      all.push(task);
      for (const look of looking) look();
    },
    of(session: string, op: ProviderTask["op"], nth = 1): Promise<ProviderTask> {
      const { promise, resolve } = Promise.withResolvers<ProviderTask>();
      const look = () => {
        const found = find(session, op, nth);
        if (found === undefined) return;
        looking.delete(look);
        resolve(found);
      };
      looking.add(look);
      look();
      return promise;
    },
  };
}
