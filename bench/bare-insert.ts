/**
 * The baseline for publishing in arrays: the same rows into a table of the same shape, 100 a
 * commit, with the same fsync. Arguments: file, seconds. Reports events per second.
 */
import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

const [file = '', seconds = '3'] = process.argv.slice(2);
const body = readFileSync(0, 'utf8');
const db = new DatabaseSync(file);
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
const started = performance.now();
let offset = 0;
while (performance.now() - started < Number(seconds) * 1000) {
  db.exec('begin immediate');
  for (let i = 0; i < 100; i++) {
    offset++;
    const now = Date.now();
    insert.run(offset, `evt_${String(offset).padStart(22, '0')}`, 'order.paid', now, now, body);
  }
  db.exec('commit');
}
process.stdout.write(String(offset / ((performance.now() - started) / 1000)));
db.close();
