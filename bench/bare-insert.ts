/**
 * The baseline for publishing in arrays: the same rows into a table of the same shape, 100 a commit, with the
 * same fsync.
 */
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import type { StoreOptions } from '../src/store/open.ts';

/** Inserts for some seconds into an empty database; returns the rows per second. */
export async function bareInsertRate(
  location: StoreOptions['location'],
  body: string,
  seconds: number,
): Promise<number> {
  const { insert, end } =
    location.engine === 'postgres' ? await openPostgres(location.url) : openSqlite(location.path);
  const started = performance.now();
  let offset = 0;
  for (; performance.now() - started < seconds * 1000; offset += 100) {
    const ids = Array.from(
      { length: 100 },
      (_, i) => `evt_${String(offset + i).padStart(22, '0')}`,
    );
    await insert(offset, ids, body);
  }
  const rate = offset / ((performance.now() - started) / 1000);
  await end();
  return rate;
}

interface Table {
  insert(offset: number, ids: readonly string[], body: string): unknown;
  end(): unknown;
}

function openSqlite(path: string): Table {
  const db = new DatabaseSync(path);
  db.exec(`
    pragma journal_mode = wal;
    pragma synchronous = full;
    pragma locking_mode = exclusive;
    create table events (
      tenant integer not null, offset integer not null, id text not null, type text not null,
      time integer not null, published_at integer not null,
      body text not null, primary key (tenant, offset), unique (tenant, id)
    ) strict;
  `);
  const insert = db.prepare('insert into events values (1, ?, ?, ?, ?, ?, ?)');
  return {
    insert: (offset, ids, body) => {
      db.exec('begin immediate');
      for (const [i, id] of ids.entries()) {
        const now = Date.now();
        insert.run(offset + i, id, 'order.paid', now, now, body);
      }
      db.exec('commit');
    },
    end: () => db.close(),
  };
}

async function openPostgres(url: string): Promise<Table> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`
    create table events (
      tenant integer not null, "offset" bigint not null, id text collate "C" not null,
      type text collate "C" not null, time bigint not null, published_at bigint not null,
      body text not null
    );
    create index events_offset on events (tenant, "offset");
    create unique index events_id on events (tenant, id, published_at);
  `);
  const text = `
    insert into events select 1, $1::bigint + n, id, 'order.paid', $2::bigint, $2::bigint, body
    from unnest($3::text[], $4::text[]) with ordinality as u(id, body, n)`;
  return {
    insert: (offset, ids, body) => {
      const bodies = ids.map(() => body);
      return client.query({ name: 'insert', text, values: [offset, Date.now(), ids, bodies] });
    },
    end: () => client.end(),
  };
}
