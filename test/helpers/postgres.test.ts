import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { query, sharedPostgres, startPostgres } from './postgres.ts';

test('a created database is empty and gone once it is dropped', async () => {
  const server = await sharedPostgres();
  const [one, two] = await Promise.all([server.createDatabase(), server.createDatabase()]);
  await query(one, 'create table notes (words text)');
  assert.deepEqual(await query(two, `select to_regclass('notes') as notes`), [{ notes: null }]);
  await server.dropDatabase(one);
  await assert.rejects(query(one, 'select 1'), { code: '3D000' });
});

test('the shared server is one server', async () => {
  const [one, two] = await Promise.all([sharedPostgres(), sharedPostgres()]);
  assert.equal(one, two);
});

test('committed rows survive each way of stopping, at the same URL', async (t) => {
  const server = await startPostgres();
  t.after(() => server.close());
  const url = await server.createDatabase();
  await query(url, 'create table notes (words text)');
  for (const mode of ['fast', 'immediate'] as const) {
    await query(url, `insert into notes values ('${mode}')`);
    await server.stop(mode);
    await assert.rejects(query(url, 'select 1'), { code: 'ECONNREFUSED' });
    await server.start();
  }
  assert.deepEqual(await query(url, 'select words from notes'), [
    { words: 'fast' },
    { words: 'immediate' },
  ]);
});

test('settings can be overridden; a wrong one fails with the log of PostgreSQL', async (t) => {
  const server = await startPostgres({ settings: { fsync: 'on', max_connections: '7' } });
  t.after(() => server.close());
  assert.deepEqual(await query(server.url(), 'show fsync'), [{ fsync: 'on' }]);
  assert.deepEqual(await query(server.url(), 'show max_connections'), [{ max_connections: '7' }]);
  const wrong = startPostgres({ settings: { no_such_setting: '1' } });
  await assert.rejects(wrong, /ended at once.*no_such_setting/s);
});

test('a closed server leaves no files and no process', async () => {
  const server = await startPostgres();
  const folder = await folderOf(server.url());
  assert.ok(existsSync(folder));
  await server.close();
  assert.ok(!existsSync(folder));
  await assert.rejects(query(server.url(), 'select 1'), { code: 'ECONNREFUSED' });
});

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  test(`a server ends with the process that started it, even after ${signal}`, async () => {
    const program = `
      const { startPostgres } = await import('./test/helpers/postgres.ts');
      console.log((await startPostgres()).url());
      setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const failed = once(child, 'exit').then(() => assert.fail('the server has not started'));
    const [printed] = (await Promise.race([once(child.stdout, 'data'), failed])) as [Buffer];
    failed.catch(() => undefined);
    const url = printed.toString().trim();
    const folder = await folderOf(url);
    child.kill(signal);
    await once(child, 'exit');
    while (existsSync(folder)) await delay(10);
    await assert.rejects(query(url, 'select 1'), { code: 'ECONNREFUSED' });
  });
}

/** Returns the folder of a server. */
async function folderOf(url: string): Promise<string> {
  const [row] = await query(url, 'show data_directory');
  return dirname(String(row?.['data_directory']));
}
