// Which sessions want a brain, as far as the projector has come.
import { z } from "zod";
import type { DatabasePool } from "./pool.ts";

/** A message that was posted this lately is being taken up by whoever heard of it. */
const TAKEN_UP_MS = 2_000;

const UNSETTLED = `
  select id from session_overview
  where open_turn_id is not null
    or (status = 'idle' and not queue_held and queue <> '[]'::jsonb
        and updated_at < now() - ${TAKEN_UP_MS} * interval '1 millisecond')`;

const ids = z.array(z.object({ id: z.string() }));

/** Sessions that want a brain: a turn is open, or messages wait for one and nobody takes them up. */
export async function unsettledSessions({ pool }: Pick<DatabasePool, "pool">): Promise<string[]> {
  const { rows } = await pool.query({ name: "unsettled-sessions", text: UNSETTLED });
  return ids.parse(rows).map(({ id }) => id);
}
