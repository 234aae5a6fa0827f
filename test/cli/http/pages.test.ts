import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { exitCodes } from '../../../src/cli/errors.ts';
import { openShell } from '../shell.ts';
import { startFake } from './fixture.ts';

/** Returns the page that a request asks for; `from` is absent in the first request. */
type PageOf = (from: string | undefined, path: string) => unknown;

/** Runs a command against a server that sends these pages. */
async function runOn(t: Parameters<typeof openShell>[0], words: readonly string[], pageOf: PageOf) {
  const shell = await openShell(t);
  const { requested, env } = await startFake(t, ({ url = '' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://localhost');
    response.end(JSON.stringify(pageOf(searchParams.get('from') ?? undefined, pathname)));
  });
  const ended = await shell.leat(words, { env });
  return { ...ended, url: env.LEAT_URL, requests: requested.length };
}

const id = `est_${'1'.repeat(22)}`;
const [list, replays] = [
  ['redeliveries', 'list'],
  ['replay', 'list', id],
];
const item = { id: 'rdl_1', created_at: '2026-03-01T00:00:00.000Z' };

describe('a list whose pages do not end', { concurrency: 2 }, () => {
  test('pages: a command ends when a page names itself or an earlier one as the next', async (t) => {
    for (const nextOf of [() => 'a', (from = '') => (from === 'a' ? 'b' : 'a')]) {
      const { code, stdout, stderr, url } = await runOn(t, list, (from) => ({
        redeliveries: [item],
        next: nextOf(from),
      }));
      assert.deepEqual([code, stdout], [exitCodes.failed, '']);
      assert.equal(
        stderr,
        `${url} sends pages without an end (a "next" came twice): is it the address of a Leat server?\n`,
      );
    }
  });

  test(
    'pages: a command ends after a thousand pages in a row that have no items',
    { tags: ['long'] },
    async (t) => {
      const { code, stdout, stderr, url, requests } = await runOn(t, replays, (from = '0') => ({
        replays: [],
        next: String(Number(from) + 1),
      }));
      assert.deepEqual([code, stdout], [exitCodes.failed, '']);
      assert.equal(
        stderr,
        `${url} sends pages without an end (1000 in a row had no items): is it the address of a Leat server?\n`,
      );
      assert.ok(requests > 1000, `${requests} requests`);
    },
  );

  test('pages: some pages without items do not end a list, as a search reads a part at a time', async (t) => {
    const words = ['deliveries', 'list', '--all', '--failed-since', '1h', '--json'];
    const { code, stdout, stderr } = await runOn(t, words, (from = '0', path) => {
      if (path !== '/api/v2/deliveries') return { eventStreams: [] };
      const page = Number(from);
      return {
        deliveries: page % 20 === 0 ? [{ id: page }] : [],
        ...(page === 40 ? {} : { next: String(page + 1) }),
      };
    });
    assert.deepEqual([code, stdout], [0, '[{"id":0},{"id":20},{"id":40}]\n'], stderr);
  });

  test('pages: --limit ends a list without an end', async (t) => {
    const words = ['streams', 'list', '--limit', '3', '--json'];
    const { code, stdout, stderr } = await runOn(t, words, (from = '0', path) =>
      path === '/api/v2/stream-health'
        ? { streams: [{ event_stream_id: from }], next: String(Number(from) + 1) }
        : { eventStreams: ['0', '1', '2'].map((each) => ({ id: each })) },
    );
    assert.equal(code, 0, stderr);
    assert.equal((JSON.parse(stdout) as unknown[]).length, 3);
  });

  test('pages: a command ends when the pages of an event repeat', async (t) => {
    const { code, stderr } = await runOn(t, ['why', 'evt_1'], (from = '') => ({
      event: { id: 'evt_1' },
      deliveries: [],
      next: from === 'a' ? 'b' : 'a',
    }));
    assert.equal(code, exitCodes.failed);
    assert.match(stderr, /sends pages without an end/);
  });

  test('pages: a command ends when a server without cursors sends the same page for ever', async (t) => {
    const page = Array.from({ length: 100 }, (_, index) => ({ client_id: `c${index}` }));
    const { code, stderr } = await runOn(t, ['clients', 'list'], () => page);
    assert.equal(code, exitCodes.failed);
    assert.match(stderr, /sends pages without an end \(a page came twice\)/);
  });

  test('pages: leat logs ends', async (t) => {
    const date = '2026-03-01T00:00:00.000Z';
    const { code, stderr } = await runOn(t, ['logs', '--follow'], (from = '') => ({
      logs: from === '' ? [{ log_id: '1', date }] : [],
      next: from === 'a' ? 'b' : 'a',
    }));
    assert.equal(code, exitCodes.failed, stderr);
    assert.match(stderr, /sends pages without an end/);
  });
});
