/**
 * The baseline for publishing in arrays on PostgreSQL: the same rows into a table of the same
 * shape, 100 a statement and commit. Arguments: URL, seconds. Reports events per second.
 */
import { readFileSync } from 'node:fs';
import pg from 'pg';

const [url = '', seconds = '3'] = process.argv.slice(2);
const body = readFileSync(0, 'utf8');
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
const insert = `
  insert into events select 1, $1::bigint + n, id, 'order.paid', $2::bigint, $2::bigint, body
  from unnest($3::text[], $4::text[]) with ordinality as u(id, body, n)`;
const bodies = Array.from({ length: 100 }, () => body);
const started = performance.now();
let offset = 0;
while (performance.now() - started < Number(seconds) * 1000) {
  const ids = bodies.map((_, i) => `evt_${String(offset + i).padStart(22, '0')}`);
  await client.query({ name: 'insert', text: insert, values: [offset, Date.now(), ids, bodies] });
  offset += bodies.length;
}
process.stdout.write(String(offset / ((performance.now() - started) / 1000)));
await client.end();
