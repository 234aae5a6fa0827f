import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { StoreReplaced, StoreUnavailable } from '../../../src/core/errors.ts';
import type { Hint } from '../../../src/store/port/hints.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { waitFor } from '../../helpers/leat.ts';
import {
  dataOf,
  installationOf,
  query,
  sharedPostgres,
  startPostgres,
} from '../../helpers/postgres.ts';
import { bytesBehind, startStandby } from '../../helpers/standby.ts';
import { addTenant, newEvent, newStream, start, dueRules, waitRule } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

const leaseMs = 60_000;

/** Commands that rely on cached state of the store; none may write anything on another one. */
const commands = (store: Store, tenant: number, stream: string) => {
  const node = { id: 'node-1', incarnation: 1 };
  const ref = { tenant, stream };
  const raise = { ...ref, epoch: 1, run: 1, version: 1, cursor: 7 };
  const limits = { consecutive: 500, total: 5000 };
  const settlement = { ...raise, outcomes: [] };
  return {
    append: () => store.log.append(tenant, [newEvent()]),
    head: () => store.log.head(tenant),
    page: () => store.log.page(tenant, { after: 0, take: 1, bytesMax: 1 }),
    firstSince: () => store.log.firstSince(tenant, 0),
    heartbeat: () => store.ownership.heartbeat(node, leaseMs),
    claim: () => store.ownership.claim(node, { claim: 9, take: 9, ...waitRule }),
    owned: () => store.ownership.owned(node, [ref], waitRule),
    raiseCursors: () => store.ownership.raiseCursors([raise]),
    release: () => store.ownership.release(node, [raise]),
    leave: () => store.ownership.leave(node),
    claimDue: () => store.deliveries.claimDue([{ ...ref, epoch: 1, take: 1, ...dueRules }]),
    settle: () => store.deliveries.settle(node, 9, [settlement], limits),
    feed: () => store.replays.materialize({ ...raise, replay: 'rpl_1', take: 1, waitingMax: 1 }),
  };
};

/** Every row that these commands could change. */
const rowsOf = (url: string) =>
  query(
    url,
    `select (select json_agg(e order by "offset") from events e) as events,
      (select json_agg(r) from runs r) as runs, (select json_agg(n) from nodes n) as nodes,
      (select json_agg(t) from tenants t) as tenants`,
  );

async function refusesAll(store: Store, tenant: number, stream: string): Promise<void> {
  for (const [name, command] of Object.entries(commands(store, tenant, stream))) {
    await assert.rejects(command(), StoreReplaced, name);
  }
}

describe('PostgreSQL: a store that is replaced under a process', () => {
  test('promotion: every command is refused and writes nothing until the process joins', async (t) => {
    const { url, primary, standby } = await replicated(t);
    const store = await openUrl(url.replace(/@[^/]*/, `$&,127.0.0.1:${standby.server.port}`));
    t.after(() => store.close());
    const hints: Hint[] = [];
    store.watch((hint) => hints.push(hint));
    const { id: tenant } = await addTenant(store, 'main');
    const stream = newStream(tenant, start);
    await store.streams.create(stream, { streamsMax: 9 });
    const node = await store.ownership.join('node-1', leaseMs);
    await store.ownership.claim(node, { claim: 1, take: 9, ...waitRule });
    await store.log.append(tenant, [newEvent(), newEvent()]);
    await waitFor('the standby', async () => (await bytesBehind(primary, standby)) === 0);
    standby.proxy.blackhole();
    await store.log.append(tenant, [newEvent(), newEvent(), newEvent()]);

    await primary.kill();
    await standby.promote();
    const promoted = standby.server.url(new URL(url).pathname.slice(1));
    const before = await rowsOf(promoted);
    // The lost connections are detected first.
    await untilAnswers(store);
    await refusesAll(store, tenant, stream.id);
    assert.deepEqual(await rowsOf(promoted), before);
    assert.equal(hints.filter(({ kind }) => kind === 'replaced').length, 1);

    const { replaced, ...again } = await store.ownership.join('node-1', leaseMs);
    assert.deepEqual(again, { id: 'node-1', incarnation: 2 });
    assert.deepEqual(replaced?.heads, [{ tenant, before: 5, now: 2 }]);
    const [appended] = await store.log.append(tenant, [newEvent()]);
    assert.equal(appended?.offset, 3);
    const [owned] = await store.ownership.claim(again, { claim: 1, take: 9, ...waitRule });
    assert.equal(owned?.stream.id, stream.id);
  });

  test('restore: commands of processes that have not joined since are refused', async (t) => {
    const url = await newDatabase();
    const [one, two] = await Promise.all([openUrl(url), openUrl(url)]);
    t.after(() => Promise.all([one.close(), two.close()]));
    const { id: tenant } = await addTenant(one, 'main');
    const node = await two.ownership.join('node-2', 1);
    await one.log.append(tenant, [newEvent()]);
    const restore = await backUp(url);
    await one.log.append(tenant, [newEvent(), newEvent()]);
    await restore();
    await Promise.all([untilAnswers(one), untilAnswers(two)]);
    await assert.rejects(one.log.append(tenant, [newEvent()]), StoreReplaced);
    const { replaced } = await one.ownership.join('node-1', leaseMs);
    assert.deepEqual(replaced?.heads, [{ tenant, before: 3, now: 1 }]);
    assert.equal((await one.log.append(tenant, [newEvent()]))[0]?.offset, 2);
    await assert.rejects(two.log.append(tenant, [newEvent()]), StoreReplaced);
    await assert.rejects(two.ownership.heartbeat(node, leaseMs), StoreReplaced);
    // Its lease may have been renewed on the previous store, so no node takes its streams yet.
    const other = (await one.ownership.nodes()).find(({ id }) => id === 'node-2');
    assert.ok((other?.leaseMs ?? 0) > 0);
    await two.ownership.join('node-2', leaseMs);
    assert.equal((await two.log.append(tenant, [newEvent()]))[0]?.offset, 3);
    assert.equal((await one.log.append(tenant, [newEvent()]))[0]?.offset, 4);
  });

  test('restore: nothing that was read of streams and their events before it is shown', async (t) => {
    const url = await newDatabase();
    const store = await openUrl(url);
    t.after(() => store.close());
    const { id: tenant } = await addTenant(store, 'main');
    const stream = newStream(tenant, start);
    await store.streams.create(stream, { streamsMax: 9 });
    const publish = (type: string) =>
      store.log.append(
        tenant,
        Array.from({ length: 128 }, () => newEvent({ type })),
      );
    const rename = (name: string) =>
      store.streams.update(tenant, stream.id, (before) => ({ after: { ...before, name } }));
    const shown = async () => {
      const { streams } = await store.streams.states(tenant, { lagsOf: 'all' });
      const facts = await store.streams.facts(tenant, stream.id);
      return [streams[0]?.name, facts?.waiting.count];
    };
    const restore = await backUp(url);
    await rename('before');
    await publish('user.created');
    assert.deepEqual(await shown(), ['before', 128]);
    await restore();
    await untilAnswers(store);
    await assert.rejects(publish('user.created'), StoreReplaced);
    await store.ownership.join('node-1', leaseMs);
    await rename('after');
    await publish('user.deleted');
    assert.deepEqual(await shown(), ['after', 0]);
  });

  test('rollback of a disk: detected by the former position of the log', async (t) => {
    const server = await startPostgres();
    t.after(() => server.close());
    const store = await openUrl(await server.createDatabase());
    t.after(() => store.close());
    const { id: tenant } = await addTenant(store, 'main');
    await store.log.append(tenant, [newEvent()]);
    const data = dataOf(installationOf(server).folder);
    await server.stop('fast');
    execFileSync('cp', ['-a', data, `${data}-copy`]);
    await server.start();
    await untilAnswers(store);
    assert.equal((await store.log.append(tenant, [newEvent()]))[0]?.offset, 2);
    await store.log.head(tenant);
    await server.stop('fast');
    execFileSync('rm', ['-rf', data]);
    execFileSync('mv', [`${data}-copy`, data]);
    await server.start();
    await untilAnswers(store);
    await assert.rejects(store.log.append(tenant, [newEvent()]), StoreReplaced);
    const { replaced } = await store.ownership.join('node-1', leaseMs);
    assert.deepEqual(replaced?.heads, [{ tenant, before: 2, now: 1 }]);
    assert.equal((await store.log.append(tenant, [newEvent()]))[0]?.offset, 2);
  });

  test('restart: the server is the same store', async (t) => {
    const server = await startPostgres();
    t.after(() => server.close());
    const store = await openUrl(await server.createDatabase());
    t.after(() => store.close());
    const { id: tenant } = await addTenant(store, 'main');
    for (const [index, mode] of (['fast', 'immediate', 'kill'] as const).entries()) {
      await store.log.append(tenant, [newEvent()]);
      await (mode === 'kill' ? server.kill() : server.stop(mode));
      await server.start();
      await untilAnswers(store);
      assert.equal(await store.log.head(tenant), index + 1);
    }
  });

  test('join: many processes join a store without a replacement being reported', async (t) => {
    const url = await newDatabase();
    const stores = await Promise.all([openUrl(url), openUrl(url), openUrl(url)]);
    t.after(() => Promise.all(stores.map((store) => store.close())));
    const hints: Hint[] = [];
    for (const [index, store] of stores.entries()) {
      store.watch((hint) => hints.push(hint));
      const joined = await store.ownership.join(`node-${index}`, leaseMs);
      assert.deepEqual(joined, { id: `node-${index}`, incarnation: 1 });
    }
    assert.deepEqual(
      hints.filter(({ kind }) => kind === 'replaced'),
      [],
    );
    // The database is a copy of another one, which was a difference to the first process.
    const generations = await Promise.all(stores.map(({ log }) => log.head(1)));
    assert.deepEqual(generations, [0, 0, 0]);
  });

  test('two stores with the same origin are distinguished, whichever was joined first', async (t) => {
    const { id: tenant, one, url } = await opened(t);
    await one.ownership.join('node-1', leaseMs);
    await one.log.append(tenant, [newEvent()]);
    // The state of each of two standbys when it is promoted, or of a backup each time it is
    // restored: the identity of the row is an earlier one than that of the server.
    const restore = async () => {
      await query(url, `delete from events where tenant = ${tenant} and "offset" > 1`);
      await query(url, `update tenants set head = 1 where id = ${tenant}`);
      await query(url, `update store set generation = ${generation}, identity = 'timeline 1'`);
    };
    const [{ generation } = { generation: '' }] = await query<{ generation: string }>(
      url,
      'select generation from store',
    );
    await restore();
    await (await openUrl(url)).close();
    await assert.rejects(one.log.append(tenant, [newEvent()]), StoreReplaced);
    const first = await one.ownership.join('node-1', leaseMs);
    await one.log.append(tenant, [newEvent(), newEvent(), newEvent()]);
    await restore();
    const two = await openUrl(url);
    t.after(() => two.close());
    await two.ownership.join('node-2', leaseMs);
    await two.log.append(tenant, [newEvent()]);
    await refusesAll(one, tenant, 'est_1');
    const second = await one.ownership.join('node-1', leaseMs);
    assert.deepEqual(second.replaced?.heads, [{ tenant, before: 4, now: 2 }]);
    const [before, after] = [first.replaced?.generation ?? 0, second.replaced?.generation ?? 0];
    assert.ok(
      Number(generation) < before && before !== after,
      `${generation}, ${before}, ${after}`,
    );
    assert.ok(Number.isSafeInteger(after));
  });

  test('join: appends during the join of a known store are accepted', async (t) => {
    const { id: tenant, one } = await opened(t);
    let isJoining = true;
    const publish = async (): Promise<number> => {
      for (let count = 0; ; count += 1) {
        if (!isJoining) return count;
        await one.log.append(tenant, [newEvent()]);
      }
    };
    const publishers = [publish(), publish(), publish(), publish()];
    for (let joins = 0; joins < 10; joins += 1) await one.ownership.join('node-1', leaseMs);
    isJoining = false;
    const counts = await Promise.all(publishers);
    const total = counts.reduce((sum, count) => sum + count, 0);
    assert.equal(await one.log.head(tenant), total);
  });

  test('another store: a read without rows is refused as well', async (t) => {
    const { id: tenant, one, url } = await opened(t);
    await one.log.append(tenant, [newEvent(), newEvent()]);
    await query(url, 'update store set generation = generation + 1');
    const types = ['type.of.no.event'];
    const ask = { after: 0, take: 9, bytesMax: 1, types };
    await assert.rejects(one.log.page(tenant, ask), StoreReplaced);
    await assert.rejects(one.log.head(tenant + 1), StoreReplaced);
  });

  test('another store: a page that waited for a restore is refused', async (t) => {
    const { id: tenant, one, url } = await opened(t);
    await one.log.append(tenant, [newEvent(), newEvent()]);
    const restore = new pg.Client({ connectionString: url });
    await restore.connect();
    t.after(() => restore.end());
    await restore.query('begin; truncate events; update store set generation = generation + 1');
    const refused = assert.rejects(
      one.log.page(tenant, { after: 0, take: 9, bytesMax: 1e6 }),
      StoreReplaced,
    );
    const waiting = `select 1 from pg_locks where not granted`;
    await waitFor('the page', async () => (await query(url, waiting)).length > 0);
    await restore.query('commit');
    await refused;
  });

  test('page: compares the store once, however many events it has', async (t) => {
    const { id: tenant, one, url } = await opened(t);
    await one.log.append(
      tenant,
      Array.from({ length: 50 }, () => newEvent()),
    );
    await query(url, 'create sequence leat_call');
    await query(
      url,
      `create or replace function leat_compare(the_generation bigint, the_identity text,
        the_flushed bigint) returns bigint language sql as
        $$ select nextval('leat_call') $$`,
    );
    const { events } = await one.log.page(tenant, { after: 0, take: 50, bytesMax: 1e6 });
    assert.equal(events.length, 50);
    const [row] = await query<{ calls: string }>(url, 'select last_value as calls from leat_call');
    assert.equal(row?.calls, '1');
  });
});

/** A store with one tenant. */
async function opened(t: TestContext) {
  const url = await newDatabase();
  const one = await openUrl(url);
  t.after(() => one.close());
  return { ...(await addTenant(one, 'main')), one, url };
}

/** A primary with a standby, and a port that can be moved from one to the other. */
async function replicated(t: TestContext) {
  const primary = await startPostgres();
  t.after(() => primary.close());
  const url = await primary.createDatabase();
  const standby = await startStandby(primary);
  t.after(() => standby.close());
  return { primary, standby, url };
}

/**
 * Copies a database; the returned function replaces the database with the copy, as a restore does.
 */
async function backUp(url: string): Promise<() => Promise<void>> {
  const server = await sharedPostgres();
  const name = new URL(url).pathname.slice(1);
  const disconnect = `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`;
  await query(server.url(), `alter database ${name} allow_connections false`);
  await query(server.url(), disconnect);
  await query(server.url(), `create database ${name}_copy template ${name} strategy wal_log`);
  await query(server.url(), `alter database ${name} allow_connections true`);
  return async () => {
    await query(server.url(), `drop database ${name} with (force)`);
    await query(server.url(), `alter database ${name}_copy rename to ${name}`);
  };
}

async function untilAnswers(store: Store): Promise<void> {
  for (;;) {
    try {
      await store.ping();
      return;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
    }
  }
}
