import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test, type TestContext } from 'node:test';
import { StoreReplaced, StoreUnavailable } from '../../src/core/errors.ts';
import type { Hint, Store } from '../../src/store/port.ts';
import { waitFor } from '../helpers/leat.ts';
import { dataOf, placeOf, query, sharedPostgres, startPostgres } from '../helpers/postgres.ts';
import { bytesBehind, startStandby } from '../helpers/standby.ts';
import { addTenant, newEvent, newStream, start, dueRules, waitRule } from './contract/scene.ts';
import { newDatabase, openUrl } from './engines.ts';

const leaseMs = 60_000;

/** What builds on what a node remembers of the store; each is to write nothing on another one. */
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
    claimDue: () => store.deliveries.claimDue([{ ...ref, epoch: 1, take: 1 }], dueRules),
    settle: () => store.deliveries.settle({ node, batch: 9, settlements: [settlement], limits }),
    feed: () => store.replays.feed({ ...raise, replay: 'rpl_1', take: 1, waitingMax: 1 }),
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
  test('after a promotion every command is refused and writes nothing until the process joins', async (t) => {
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
    // The connections that were lost are found out first.
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

  test('one that was restored is refused to those that have not joined since', async (t) => {
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
    // Its lease may have been renewed on the store that is gone: nobody takes its streams yet.
    const other = (await one.ownership.nodes()).find(({ id }) => id === 'node-2');
    assert.ok((other?.leaseMs ?? 0) > 0);
    await two.ownership.join('node-2', leaseMs);
    assert.equal((await two.log.append(tenant, [newEvent()]))[0]?.offset, 3);
    assert.equal((await one.log.append(tenant, [newEvent()]))[0]?.offset, 4);
  });

  test('a disk that was rolled back is found out by the position that the log had reached', async (t) => {
    const server = await startPostgres();
    t.after(() => server.close());
    const store = await openUrl(await server.createDatabase());
    t.after(() => store.close());
    const { id: tenant } = await addTenant(store, 'main');
    await store.log.append(tenant, [newEvent()]);
    const data = dataOf(placeOf(server).folder);
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

  test('a server that was restarted is the same one', async (t) => {
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

  test('a store that nobody replaced is joined by many without a word', async (t) => {
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
    const [row] = await query<{ generation: string }>(url, 'select generation from store');
    // The database is a copy of another one, which is a difference to the first process.
    assert.equal(row?.generation, '2');
  });
});

/** A primary with a standby, and a port that can be moved from one to the other. */
async function replicated(t: TestContext) {
  const primary = await startPostgres();
  t.after(() => primary.close());
  const url = await primary.createDatabase();
  const standby = await startStandby(primary);
  t.after(() => standby.close());
  return { primary, standby, url };
}

/** Copies a database; what it answers puts the copy in its place, as a restore does. */
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
      return await store.ping();
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
    }
  }
}
