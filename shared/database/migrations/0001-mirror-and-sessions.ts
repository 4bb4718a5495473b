import { Migration } from "@mikro-orm/migrations";

export class MirrorAndSessions extends Migration {
  override up(): void {
    this.addSql(`
      create table ledger_message (
        session text not null,
        sequence bigint not null,
        message bytea not null,
        at timestamptz(3) not null,
        primary key (session, sequence)
      )`);
    // Not compressed: that would take time on the way of every append and of every session that is opened.
    this.addSql("alter table ledger_message alter column message set storage external");
    this.addSql("create unique index ledger_message_sequence on ledger_message (sequence)");
    this.addSql(`
      create table session_overview (
        id text primary key,
        title text not null,
        model text not null,
        provider text not null,
        repository_url text,
        repository_ref text,
        status text not null check (status in ('idle', 'running', 'ending', 'ended')),
        open_turn_id text,
        last_turn jsonb,
        queue jsonb not null,
        sandbox_state text not null,
        sandbox_id text,
        sandbox_generation integer not null,
        input_tokens bigint not null,
        output_tokens bigint not null,
        cached_input_tokens bigint not null,
        cost_usd double precision not null,
        cost_complete boolean not null,
        turns integer not null,
        messages integer not null,
        replies integer not null,
        tool_calls integer not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        last_sequence bigint not null,
        last_hash text not null
      )`);
    this.addSql("create index session_overview_page on session_overview (updated_at desc, id desc)");
    this.addSql(
      "create index session_overview_open_turn on session_overview (open_turn_id) where open_turn_id is not null",
    );
    this.addSql(`
      create table applied_sequence (
        projection text not null,
        shard integer not null,
        sequence bigint not null,
        primary key (projection, shard)
      )`);
  }

  override down(): void {
    this.addSql("drop table applied_sequence, session_overview, ledger_message");
  }
}
