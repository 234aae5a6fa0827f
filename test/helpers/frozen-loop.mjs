// Loaded by `--import` into a program that a test starts: its event loop stands still from SIGUSR2 on, or from the
// first request for FREEZE_PATH, in the way that FREEZE_BY names; or FREEZE_MIGRATION_MS long in a migration of
// SQLite. Threads are left alone.
import { subscribe } from 'node:diagnostics_channel';
import { isMainThread } from 'node:worker_threads';

const ways = {
  loop: endlessLoop,
  // No processor time, as on a disk that does not respond.
  wait: () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, waitMs),
  native: () => {
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
    const numbers = 'with recursive a(x) as (select 1 union all select x + 1 from a)';
    new DatabaseSync(':memory:').prepare(`${numbers} select count(*) from a`).get();
  },
};
const waitMs = Number(process.env['FREEZE_WAIT_MS'] ?? 0);

function endlessLoop() {
  for (;;);
}

if (isMainThread) {
  const freeze = ways[process.env['FREEZE_BY'] ?? 'loop'];
  process.on('SIGUSR2', freeze);
  const path = process.env['FREEZE_PATH'];
  subscribe('http.server.request.start', ({ request }) => {
    if (request.url === path) freeze();
  });
  const migrationMs = Number(process.env['FREEZE_MIGRATION_MS'] ?? 0);
  if (migrationMs > 0) delayMigration(migrationMs);
}

function delayMigration(forMs) {
  const { prototype } = process.getBuiltinModule('node:sqlite').DatabaseSync;
  const { exec } = prototype;
  prototype.exec = function (sql) {
    if (/create table events\b/.test(sql)) for (const end = Date.now() + forMs; Date.now() < end;);
    return exec.call(this, sql);
  };
}
