import { Migration } from "@mikro-orm/migrations";

export class SessionSnapshots extends Migration {
  override up(): void {
    this.addSql(`
      create table session_snapshot (
        session text not null,
        fold text not null,
        fold_version integer not null,
        sequence bigint not null,
        hash text not null,
        state bytea not null,
        primary key (session, fold)
      )`);
    // It is compressed already.
    this.addSql("alter table session_snapshot alter column state set storage external");
  }

  override down(): void {
    this.addSql("drop table session_snapshot");
  }
}
