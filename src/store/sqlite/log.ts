import type { Millis } from '../../core/clock.ts';
import { StoreContentRefused } from '../../core/errors.ts';
import type { Appended, LogEvent, NewEvent, Offset } from '../../core/types.ts';
import type { Database } from './database.ts';

/**
 * Appends `events` inside the caller's transaction. Emit `{ kind: 'appended' }` with `written`
 * after the commit, unless it is empty. Throws `StoreContentRefused` when the content is at fault;
 * the caller's transaction must end then.
 */
export function appendWithin(
  db: Database,
  tenant: number,
  events: readonly NewEvent[],
  now: Millis,
): { appended: Appended[]; written: LogEvent[] } {
  const tip = db.get<{ head: Offset; last_published_at: Millis }>`
    select head, last_published_at from tenants where id = ${tenant}`;
  if (tip === undefined) throw new StoreContentRefused(`There is no tenant ${tenant}.`);
  const publishedAt = Math.max(now, tip.last_published_at);
  const appended: Appended[] = [];
  const written: LogEvent[] = [];
  let head = tip.head;
  for (const { id, chosen, type, time, body } of events) {
    // The look-up also finds what this loop has inserted, so it answers repeats in the batch too.
    const first = chosen ? offsetOf(db, tenant, id) : undefined;
    if (first !== undefined) {
      appended.push({ id, offset: first, repeated: true });
      continue;
    }
    const offset = (head += 1);
    db.run`insert into events (tenant, offset, id, type, time, published_at, body)
      values (${tenant}, ${offset}, ${id}, ${type}, ${time}, ${publishedAt}, ${body})`;
    appended.push({ id, offset, repeated: false });
    written.push({ offset, id, type, time, publishedAt, body });
  }
  if (written.length > 0) {
    db.run`update tenants set head = ${head}, last_published_at = ${publishedAt}
      where id = ${tenant}`;
  }
  return { appended, written };
}

/** Where the log has the event, or had it while a delivery of the pruned event is still open. */
function offsetOf(db: Database, tenant: number, id: string): Offset | undefined {
  const row =
    db.get<{ offset: Offset }>`
      select offset from events where tenant = ${tenant} and id = ${id}` ??
    db.get<{ offset: Offset }>`
      select offset from deliveries
      where tenant = ${tenant} and event_id = ${id} and offset is not null limit 1`;
  return row?.offset;
}
