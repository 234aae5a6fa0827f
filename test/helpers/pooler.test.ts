import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import pg from 'pg';
import { type Pooler, startPooler } from './pooler.ts';
import { throughPort, sharedPostgres } from './postgres.ts';

test('each transaction has one connection to the server, the next transaction another', async (t) => {
  const { pooler, open } = await startFixture(t);
  const client = await open();
  const seen: number[] = [];
  for (let n = 0; n < 4; n += 1) {
    await client.query('begin');
    const pid = await pidOf(client);
    assert.equal(await pidOf(client), pid);
    await client.query('commit');
    seen.push(pid);
  }
  assert.equal(new Set(seen.slice(0, 3)).size, 3);
  assert.equal(seen[3], seen[0]);
  assert.equal(pooler.assignments, 4);
});

test('TLS is refused; then the client receives the parameters of the server', async (t) => {
  const { open, url, pooler } = await startFixture(t);
  const secure = new pg.Client({ connectionString: url, ssl: true });
  await assert.rejects(secure.connect(), /does not support SSL/);
  const client = await open();
  const { rows } = await client.query<{ server_version: string }>('show server_version');
  const { port, user, database } = client;
  assert.equal(port, pooler.port);
  const greeting = await greetingOf(port, ['user', user ?? '', 'database', database ?? '']);
  assert.equal(greeting[0], 'N');
  assert.ok(greeting.includes(`server_version\0${rows[0]?.server_version}\0`));
});

test('more clients than connections share them in turn', async (t) => {
  const { pooler, open } = await startFixture(t);
  const clients = await Promise.all(Array.from({ length: 12 }, () => open()));
  const sums = clients.map(async (client, n) => {
    await client.query('begin');
    const { rows } = await client.query('select $1::int + 1 as sum', [n]);
    await client.query('commit');
    return rows;
  });
  const expected = clients.map((_, n) => [{ sum: n + 1 }]);
  assert.deepEqual(await Promise.all(sums), expected);
  assert.equal(pooler.assignments, 12);
});

test('a pipelining client receives every result, in one transaction', async (t) => {
  const { pooler, open } = await startFixture(t);
  const client = await open({ pipeline: true });
  const pids = await Promise.all([
    client.query('begin'),
    pidOf(client),
    ...Array.from({ length: 20 }, () => pidOf(client)),
    client.query('commit'),
  ]);
  const numbers = pids.filter((pid) => typeof pid === 'number');
  assert.equal(numbers.length, 21);
  assert.equal(new Set(numbers).size, 1);
  assert.equal(pooler.assignments, 1);
});

test('a failed statement releases its connection, a failed transaction keeps it until its end', async (t) => {
  const { pooler, open } = await startFixture(t);
  const client = await open();
  await assert.rejects(client.query('select 1 / $1::int', [0]), { code: '22012' });
  assert.equal(pooler.assignments, 1);
  await client.query('begin');
  await assert.rejects(client.query('select 1 / 0'), { code: '22012' });
  await assert.rejects(client.query('select 1'), { code: '25P02' });
  await client.query('rollback');
  assert.equal(pooler.assignments, 2);
});

test('long rows arrive completely', async (t) => {
  const { open } = await startFixture(t);
  const client = await open();
  const text = 'x'.repeat(3_000_000);
  const { rows } = await client.query('select $1::text as text', [text]);
  assert.deepEqual(rows, [{ text }]);
});

test('the state of a session is gone in the next transaction', async (t) => {
  const { open } = await startFixture(t);
  const client = await open();
  await client.query(`set search_path = 'elsewhere'`);
  const { rows } = await client.query<{ search_path: string }>('show search_path');
  assert.notEqual(rows[0]?.search_path, 'elsewhere');
  const named = { name: 'one', text: 'select 1 as one' };
  await client.query(named);
  // The client assumes that the server still has it.
  await assert.rejects(client.query(named), { code: '26000' });
});

test('notifications do not arrive', async (t) => {
  const { open } = await startFixture(t);
  const client = await open();
  client.on('notification', () => assert.fail('a notification'));
  await client.query('listen words');
  // All but the connection that listens, which is the next after them.
  for (let n = 0; n < 2; n += 1) await client.query('select 1');
  const other = await open();
  await client.query('begin');
  assert.deepEqual((await client.query('select pg_listening_channels() as name')).rows, [
    { name: 'words' },
  ]);
  await client.query('commit');
  await other.query(`notify words, 'said'`);
  await client.query('select 1');
});

test('a pooler may refuse LISTEN; the connection remains usable', async (t) => {
  const { pooler, open } = await startFixture(t, { refuseListen: true });
  const client = await open({ pipeline: true });
  const first = client.query('select 1 as one');
  const refused = assert.rejects(client.query('LISTEN words'), { code: '0A000' });
  const last = client.query('select 2 as two');
  assert.deepEqual((await first).rows, [{ one: 1 }]);
  await refused;
  assert.deepEqual((await last).rows, [{ two: 2 }]);
  assert.equal(pooler.assignments, 2);
});

test('a transaction whose client disconnects is rolled back, and others continue', async (t) => {
  const { url, open } = await startFixture(t, { serverConnections: 1 });
  const client = await open();
  await client.query('create table notes (words text)');
  const leaver = new pg.Client({ connectionString: url });
  await leaver.connect();
  await leaver.query('begin');
  await leaver.query(`insert into notes values ('never')`);
  await leaver.end();
  assert.deepEqual((await client.query('select words from notes')).rows, []);
});

test('a session parameter is refused, and so is another database', async (t) => {
  const { url, open } = await startFixture(t);
  await open();
  const withOptions = new pg.Client({ connectionString: url, statement_timeout: 1000 });
  await assert.rejects(withOptions.connect(), { code: '08P01' });
  const elsewhere = new pg.Client({ connectionString: url.replace(/[^/]*$/, 'postgres') });
  await assert.rejects(elsewhere.connect(), { code: '08P01' });
});

test('without a server a client gets an error', async (t) => {
  const unreachable = await startPooler({ port: 1, serverConnections: 1 });
  t.after(() => unreachable.close());
  const client = new pg.Client({
    connectionString: `postgres://leat@127.0.0.1:${unreachable.port}/x`,
  });
  await assert.rejects(client.connect(), { code: '08006' });
});

/** A pooler in front of an empty database. */
async function startFixture(
  t: TestContext,
  options: { serverConnections?: number; refuseListen?: boolean } = {},
) {
  const server = await sharedPostgres();
  const database = await server.createDatabase();
  const pooler: Pooler = await startPooler({ port: server.port, serverConnections: 3, ...options });
  const url = throughPort(database, pooler.port);
  const clients: pg.Client[] = [];
  t.after(async () => {
    await Promise.all(clients.map((client) => client.end()));
    await pooler.close();
    await server.dropDatabase(database);
  });
  const open = async (config: pg.ClientConfig = {}): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: url, ...config });
    clients.push(client);
    await client.connect();
    return client;
  };
  return { pooler, url, open };
}

async function pidOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid ?? 0;
}

/** Returns the reply to a client that requests TLS and logs in without waiting for the reply. */
async function greetingOf(port: number, parameters: readonly string[]): Promise<string> {
  const body = Buffer.from(`${parameters.join('\0')}\0\0`);
  const heads = Buffer.alloc(16);
  [8, 80_877_103, 8 + body.length, 196_608].forEach((word, n) => heads.writeInt32BE(word, 4 * n));
  const socket = connect({ port, host: '127.0.0.1' });
  socket.write(Buffer.concat([heads, body]));
  let received = '';
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    received += chunk.toString('latin1');
    // ReadyForQuery, outside of a transaction.
    if (received.endsWith('Z\0\0\0\x05I')) break;
  }
  return received;
}
