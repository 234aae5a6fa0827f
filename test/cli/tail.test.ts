import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { after, before, describe, test, type TestContext } from 'node:test';
import { eventLine } from '../../src/cli/tail.ts';
import { plain } from '../../src/cli/terminal/terminal.ts';
import { widthOf } from '../../src/cli/terminal/width.ts';
import { eventsOf, freshType, publish, publishAll } from '../helpers/api-client.ts';
import { end, waitFor } from '../helpers/leat.ts';
import {
  type Ended,
  openLoggedInShell,
  openServer,
  openShell,
  type Shell,
  type Started,
} from './shell.ts';

describe('leat events tail', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat events tail: prints events of a type as they are published, and ends at Ctrl-C with 130', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const type = freshType();
    const tail = shell.start(['events', 'tail', '--type', type]);
    await listening(tail);
    await publish(leat, freshType());
    const event = await publish(leat, type, { name: '\u009B' });
    await waitFor('the event', () => tail.stdout().includes('\n'));
    await end(tail.child, 'SIGINT');
    const { code, stdout } = await tail.ended();
    assert.equal(code, 130);
    assert.match(
      stdout,
      new RegExp(`^\\d\\d:\\d\\d:\\d\\d  ${type} *  ${event}  \\{"name":"\\\\u009b"\\}\n$`),
    );
  });

  test('leat events tail: begins at a time or after an offset, and prints one JSON per line with --json', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const type = freshType();
    const [first, second] = [await publish(leat, type), await publish(leat, type, { big: 1 })];
    const words = ['events', 'tail', '--type', type, '--json', '--count'];
    const both = await shell.leat([...words, '2', '--since', '1h']);
    assert.equal(both.code, 0, both.stderr);
    const lines = both.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
    assert.deepEqual(
      lines.map(({ event }) => event.id),
      [first, second],
    );
    const rest = await shell.leat([...words, '1', '--from', lines[0]?.offset ?? '']);
    assert.equal((JSON.parse(rest.stdout) as Line).event.id, second);
    assert.equal((await shell.leat([...words, '1', '--from', 'a', '--since', '1h'])).code, 2);
    const wrong = await shell.leat([...words, '1', '--from', 'no offset']);
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /Query validation error/);
  });
});

describe('a tail that ends', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  /** Returns the ids that a command prints. */
  const idsOf = ({ code, stdout, stderr }: Ended): string[] => {
    assert.equal(code, 0, stderr);
    const lines = stdout.split('\n').filter((line) => line !== '');
    return lines.map((line) => (JSON.parse(line) as Line).event.id);
  };

  test('leat events tail: refuses an end without a beginning, and one before it', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    for (const words of [
      ['--no-follow'],
      ['--until', '1h'],
      ['--since', '1h', '--until', '2h'],
      ['--since', '1h', '--until', 'never'],
    ]) {
      const { code, stdout } = await shell.leat(['events', 'tail', ...words]);
      assert.deepEqual([code, stdout], [2, ''], words.join(' '));
    }
  });

  test('leat events tail --no-follow: ends where nothing matches, of a type, a time or after an offset', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const type = freshType();
    const tail = ['events', 'tail', '--json', '--no-follow', '--type', type];
    assert.deepEqual(idsOf(await shell.leat([...tail, '--since', '1h'])), []);
    const event = await publish(leat, type);
    await publish(leat, freshType());
    const all = await shell.leat([...tail, '--since', '1h']);
    assert.deepEqual(idsOf(all), [event]);
    const { offset } = JSON.parse(all.stdout) as Line;
    assert.deepEqual(idsOf(await shell.leat([...tail, '--from', offset])), []);
    assert.deepEqual(idsOf(await shell.leat([...tail, '--since', '1h', '--until', '30m'])), []);
  });

  test('leat events tail --no-follow: says so where there is no event', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const tail = ['events', 'tail', '--no-follow', '--since', '1h', '--type', freshType()];
    assert.deepEqual(await shell.leat(tail), { code: 0, stdout: '', stderr: 'No events.\n' });
    assert.deepEqual(await shell.leat([...tail, '--json']), { code: 0, stdout: '', stderr: '' });
  });

  test('leat events tail --no-follow: prints each event up to the present one, on several pages', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const type = freshType();
    const ids = await publishAll(leat, eventsOf(type, 2500));
    await publish(leat, freshType());
    const tail = ['events', 'tail', '--json', '--no-follow', '--since', '1h'];
    assert.deepEqual(idsOf(await shell.leat([...tail, '--type', type])), ids);
    const unfiltered = idsOf(await shell.leat(tail));
    assert.deepEqual(
      unfiltered.filter((id) => ids.includes(id)),
      ids,
    );
    assert.equal(idsOf(await shell.leat([...tail, '--type', type, '--count', '3'])).length, 3);
  });

  test('leat events tail --until: ends before a time in the past', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const type = freshType();
    const first = await publish(leat, type);
    const since = '2026-01-01';
    const { events } = (await (await leat.send('GET', '/api/v2/event-log?take=1')).json()) as {
      events: { accepted_at: string }[];
    };
    await waitFor(
      'the next millisecond',
      () => Date.now() > Date.parse(events[0]?.accepted_at ?? '') + 1,
    );
    const until = new Date(Date.now()).toISOString();
    await waitFor('the next millisecond', () => Date.now() > Date.parse(until));
    const second = await publish(leat, type);
    const tail = ['events', 'tail', '--json', '--type', type, '--since', since];
    assert.deepEqual(idsOf(await shell.leat([...tail, '--until', until])), [first]);
    assert.deepEqual(idsOf(await shell.leat([...tail, '--no-follow'])), [first, second]);
  });

  test(
    'leat events tail --until: follows until a time in the future',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const type = freshType();
      const until = new Date(Date.now() + 5000).toISOString();
      const words = ['events', 'tail', '--json', '--type', type, '--since', '1h', '--until', until];
      const tail = shell.start(words);
      const event = await publish(leat, type);
      assert.deepEqual(idsOf(await tail.ended()), [event]);
    },
  );
});

describe('a tail whose connection breaks', { concurrency: 2 }, () => {
  test('leat events tail: resumes after its last offset and misses nothing', async (t) => {
    const requests: IncomingMessage[] = [];
    const shell = await against(t, (request, response) => {
      requests.push(request);
      const number = requests.length;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(':connected\nretry: 1\n\n');
      const event = { id: `evt_${number}`, type: 'a.b', time: '2026-03-01T09:30:00.000Z' };
      const data = JSON.stringify({ offset: `O${number}`, event });
      response.write(`event: a.b\nid: O${number}\ndata: ${data}\n\n`);
      // Ends by a reset, then by the end of the response, then by an error event.
      if (number === 1) setImmediate(() => response.destroy());
      else if (number === 2) response.end('event: a.b\ndata: cut off');
      else
        response.end('event: error\ndata: {"error":{"code":"processing_error","message":"x"}}\n\n');
    });
    const tail = await shell.leat(['events', 'tail', '--since', '1h', '--count', '4', '--json']);
    assert.equal(tail.code, 0, tail.stderr);
    assert.equal(
      tail.stdout.match(/"id":"evt_\d"/g)?.join(),
      [1, 2, 3, 4].map((n) => `"id":"evt_${n}"`).join(),
    );
    assert.deepEqual(
      requests.map(({ headers }) => headers['last-event-id']),
      [undefined, 'O1', 'O2', 'O3'],
    );
    assert.match(requests[0]?.url ?? '', /from_timestamp=/);
    assert.ok(!(requests[1]?.url ?? '').includes('from_timestamp'));
    assert.match(tail.stderr, /Trying again\./);
  });

  test('leat events tail: misses nothing when it breaks before the first event', async (t) => {
    const urls: (string | undefined)[] = [];
    const shell = await against(t, (request, response) => {
      urls.push(request.url);
      response.sendDate = false;
      const date = 'Sun, 01 Mar 2026 09:30:00 GMT';
      response.writeHead(200, { 'content-type': 'text/event-stream', date });
      const event = urls.length === 1 ? '' : 'id: O\ndata: {"event": {"id": "evt_1"}}\n\n';
      response.end(`:connected\nretry: 1\n\n${event}`);
    });
    const { code, stdout } = await shell.leat(['events', 'tail', '--count', '1']);
    assert.deepEqual([code, stdout.includes('evt_1')], [0, true]);
    assert.deepEqual(urls, [
      '/api/v2/events',
      '/api/v2/events?from_timestamp=2026-03-01T09%3A30%3A00.000Z',
    ]);
  });

  test('leat events tail: exits with 4 when the events are no longer retained', async (t) => {
    const shell = await against(t, (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const error = { code: 'cursor_expired', message: 'Cursor points to nothing.\u001B' };
      response.end(`event: error\ndata: ${JSON.stringify({ error })}\n\n`);
    });
    const { code, stderr } = await shell.leat(['events', 'tail']);
    assert.equal(code, 4);
    assert.match(stderr, /Cursor points to nothing\.\\u\{1b\}\nBegin at the oldest retained event/);
  });

  test('leat events tail: exits at once when the first connection fails', async (t) => {
    const shell = await against(t, (_request, response) => {
      const body = { message: 'Maximum concurrent', errorCode: 'too_many_connections' };
      response.writeHead(403).end(JSON.stringify(body));
    });
    const { code, stderr } = await shell.leat(['events', 'tail']);
    assert.equal(code, 3);
    assert.match(stderr, /^Maximum concurrent\nEnd another pull first/);
  });
});

describe('eventLine', () => {
  const event = {
    id: 'evt_1',
    type: 'user.created',
    time: '2026-03-01T09:30:00.971Z',
    data: { object: { name: 'a\u001B[31m\u009B' } },
  };

  test('eventLine: shows time of day, type, id and data', () => {
    const line = eventLine(event, { width: undefined, paint: plain });
    assert.equal(line, '09:30:00  user.created            evt_1  {"name":"a\\u001b[31m\\u009b"}');
    assert.equal(widthOf(eventLine(event, { width: 50, paint: plain })), 50);
  });

  test('eventLine: paints the type in the colour of its family', () => {
    const paint = (format: unknown, text: string) => `<${String(format)} ${text.trim()}>`;
    assert.match(eventLine(event, { width: undefined, paint }), /<cyan user\.created>/);
    const other = { ...event, type: 'order.paid' };
    assert.match(eventLine(other, { width: undefined, paint }), /<green order\.paid>/);
  });

  test('eventLine: returns one line for any event', () => {
    for (const invalid of [{}, { type: 1, id: null, time: {}, data: 'x' }]) {
      assert.equal(eventLine(invalid, { width: 80, paint: plain }).includes('\n'), false);
    }
  });
});

interface Line {
  readonly offset: string;
  readonly event: { readonly id: string };
}

async function listening(tail: Started): Promise<void> {
  await waitFor('the pull', () => tail.stderr().includes('Listening to'));
}

/** A shell that is logged in to a server which answers pulls as the test wants. */
async function against(
  t: TestContext,
  pull: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Shell> {
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/api/v2/events') === true) return pull(request, response);
    response.end('{"access_token": "a-token", "expires_in": 3600}');
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const shell = await openShell(t);
  const words = ['login', `http://127.0.0.1:${port}`, '--client-id', 'a'];
  assert.equal((await shell.leat(words, { input: 'b' })).code, 0);
  return shell;
}
