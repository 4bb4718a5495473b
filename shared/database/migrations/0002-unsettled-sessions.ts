import { Migration } from "@mikro-orm/migrations";

export class UnsettledSessions extends Migration {
  override up(): void {
    this.addSql("alter table session_overview add column queue_held boolean not null default false");
    this.addSql("alter table session_overview alter column queue_held drop default");
    // Small, however many sessions there are: brains ask for these all the time.
    this.addSql("drop index session_overview_open_turn");
    this.addSql(`
      create index session_overview_unsettled on session_overview (updated_at)
      where open_turn_id is not null or (status = 'idle' and not queue_held and queue <> '[]'::jsonb)`);
  }

  override down(): void {
    this.addSql("drop index session_overview_unsettled");
    this.addSql("alter table session_overview drop column queue_held");
    this.addSql(
      "create index session_overview_open_turn on session_overview (open_turn_id) where open_turn_id is not null",
    );
  }
}
