import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { type Cluster, settled, startCluster } from '../helpers/cluster.ts';
import { createTempStore, type Running, startLeat, waitFor } from '../helpers/leat.ts';
import { createStream, publish, startCountingReceiver } from '../helpers/traffic.ts';

const root = new URL('../../', import.meta.url).pathname;

/** Returns the SQL of a newer version, with a migration that this program does not have. */
const newer = (oldest: string, change = ''): string => `
  begin;
  insert into leat_migrations
    select to_char(version + 1, 'fm0000') || '_future', 'unknown' from leat_schema;
  update leat_schema set version = version + 1, oldest_that_may_run = ${oldest};
  ${change};
  commit`;

/** Renames every edition of a function. */
const renamed = (from: string, to: string): string => `
  do $$ declare edition regprocedure; begin
    for edition in select oid from pg_proc where proname = '${from}' loop
      execute format('alter function %s rename to ${to}', edition);
    end loop;
  end $$`;

describe('nodes and the version of the schema', () => {
  test(
    'a schema that older programs may use: nodes continue, and start',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const one = await cluster.start();
      await cluster.query(newer('oldest_that_may_run'));
      const two = await cluster.start();
      await settled(two, [0, 0]);
      for (const node of [one, two]) assert.equal((await publish(node, 1)).length, 1);
    },
  );

  test(
    'a schema that is too new for a node: 503, no work, one line of each part, and no start',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      receiver.startRound();
      const node = await cluster.start();
      await createStream(node, receiver.url, 'all');
      await receiver.waitForAll('an event', ['all'], await publish(node, 1));

      // The first effect on a node: a function that it needs is gone.
      await cluster.query(newer('version + 1', renamed('leat_append', 'leat_append_2')));
      const event = { type: 'a.b', data: {} };
      for (let count = 0; count < 20; count += 1) {
        const response = await node.send('POST', '/api/v2/events', event);
        assert.equal(response.status, 503, await response.text());
        assert.equal(response.headers.get('retry-after'), '1');
      }
      const reason = 'A newer version of Leat changed the store so that this one may not use it.';
      await waitFor('a node that is not ready', async () => {
        const response = await fetch(`${node.url}/readyz`);
        return (
          response.status === 503 &&
          ((await response.json()) as { message: string }).message === reason
        );
      });
      assert.equal((await fetch(`${node.url}/healthz`)).status, 200);
      await waitFor('the log to say so', () => outdatedLines(node).length > 0);
      assert.match(outdatedLines(node)[0] ?? '', /stop this process and start the newer version/);
      await assert.rejects(
        cluster.start(),
        /LEAT_STORE: .* was changed by a newer version of Leat \(\d{4}_future\): run that version, or restore a backup from before it/,
      );

      await cluster.query(`
      begin;
      ${renamed('leat_append_2', 'leat_append')};
      delete from leat_migrations where name like '%_future';
      update leat_schema set version = version - 1, oldest_that_may_run = version - 1;
      commit`);
      await waitFor('a node that works again', async () => (await publish(node, 1)).length === 1);
      const messages = outdatedLines(node).map((line) => (JSON.parse(line) as { msg: string }).msg);
      assert.deepEqual(messages, [...new Set(messages)], 'each of them once');
    },
  );

  const outdatedLines = (node: Running): string[] =>
    node
      .output()
      .split('\n')
      .filter((line) => line.includes('a newer version of Leat changed'));
});

describe('the version before, on the same store', () => {
  test(
    'PostgreSQL: both versions accept and deliver events, and no request is a 500',
    { tags: ['long'] },
    async (t) => {
      const program = programBefore(t);
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      receiver.startRound();
      const old = await cluster.start({}, program);
      await createStream(old, receiver.url, 'all');
      const acknowledged = new Set(await publishAt([old]));
      const present = await cluster.start();
      for (const id of await publishAt([old, present])) acknowledged.add(id);
      // Its secrets must open at the version before.
      await createStream(present, receiver.url, 'later');
      await lists(old, present);
      await restartOld(cluster, old, program);
      await old.stop();
      for (const id of await publishAt([present])) acknowledged.add(id);
      await receiver.waitForAll('every event of both versions', ['all'], acknowledged);
    },
  );

  test(
    'SQLite: an upgrade delivers what waits, and so does going back',
    { tags: ['long'] },
    async (t) => {
      const program = programBefore(t);
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const receiver = await startCountingReceiver(t);
      receiver.startRound();
      const acknowledged = new Set<string>();
      const runPaused = async (node: Running): Promise<void> => {
        t.after(() => node.kill());
        for (const id of await publishAt([node])) acknowledged.add(id);
        await lists(node);
        assert.equal(await node.stop(), 0);
      };
      const first = await startLeat(tempStore, {}, program);
      const id = await createStream(first, receiver.url, 'all');
      const stream = `/api/v2/event-streams/${id}`;
      assert.equal((await first.send('POST', `${stream}/pause`)).status, 200);
      await runPaused(first);
      await runPaused(await startLeat(tempStore));
      const last = await startLeat(tempStore, {}, program);
      assert.equal((await last.send('POST', `${stream}/resume`)).status, 200);
      await receiver.waitForAll('every event of both versions', ['all'], acknowledged);
      await runPaused(last);
    },
  );

  /** Publishes at both in turn; a refusal ends the test. */
  const publishAt = async (nodes: readonly Running[]): Promise<string[]> => {
    const ids: string[] = [];
    for (let count = 0; count < 50; count += 1) {
      for (const node of nodes) {
        const response = await node.send('POST', '/api/v2/events', {
          type: 'order.paid',
          data: {},
        });
        const text = await response.text();
        assert.equal(response.status, 202, text);
        ids.push((JSON.parse(text) as { id: string }).id);
      }
    }
    return ids;
  };

  const lists = async (...nodes: readonly Running[]): Promise<void> => {
    for (const path of ['/event-streams', '/users?sort=email:1', '/clients', '/roles']) {
      for (const node of nodes) {
        assert.equal((await node.send('GET', `/api/v2${path}`)).status, 200, path);
      }
    }
  };

  /** The former version must also start on the database of the present one. */
  const restartOld = async (cluster: Cluster, old: Running, program: string): Promise<void> => {
    const again = await cluster.start({}, program);
    await again.stop();
    assert.equal(old.child.exitCode, null);
  };
});

/** Leat promises from the first schema on that a version runs together with the next one. */
const firstSchema = 'src/store/engine/postgres/migrations/0049_baseline.sql';

/**
 * Returns LEAT_TEST_BEFORE, or the newest tag of a version before the present commit that has the first
 * schema. Where there is none the present commit runs together with itself.
 */
function versionBefore(): string {
  const named = process.env['LEAT_TEST_BEFORE'];
  if (named !== undefined) return named;
  const before = ['--merged', 'HEAD', '--no-contains', 'HEAD', '--sort=-v:refname'];
  const tags = git('tag', '--list', 'v*', ...before).filter((tag) => tag !== '');
  return tags.find((tag) => git('ls-tree', '--name-only', tag, firstSchema)[0] !== '') ?? 'HEAD';
}

function git(...words: string[]): string[] {
  return execFileSync('git', words, { cwd: root, encoding: 'utf8' }).trim().split('\n');
}

/** Returns the `main.ts` of the version before, in its own folder with the packages of this checkout. */
function programBefore(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'leat-before-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const archive = execFileSync('git', ['archive', versionBefore()], {
    cwd: root,
    maxBuffer: 1 << 28,
  });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'src', 'main.ts');
}
