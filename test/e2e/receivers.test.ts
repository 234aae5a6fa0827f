import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { CloudEvent } from 'cloudevents';
import { endWithProcess } from '../helpers/children.ts';
import { type Arrival, type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { end, freePort, type Running, waitFor } from '../helpers/leat.ts';
import { expectBody, createStream, failuresOf, freshType, publish } from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

/** The receivers of docs/receivers.md, extracted from the page, run, and attacked. */

const guide = readFileSync(new URL('../../docs/receivers.md', import.meta.url), 'utf8');
const modules = new URL('../../node_modules', import.meta.url).pathname;

/** The blocks that begin with their file name in a comment. */
const receivers = [...guide.matchAll(/^```\w+\n(?:\/\/|#) (receiver\S*)\n([^]*?)^```$/gm)].map(
  ([, file = '', source = '']) => ({ file, source }),
);

let leat: Running;
runServer({ LEAT_RETRY_DELAYS_MS: '10,10,10' }, (running) => {
  leat = running;
});

test('the guide has the four receivers', () => {
  const files = receivers.map(({ file }) => file);
  const expected = ['receiver.mjs', 'receiver-express.mjs', 'receiver-fastify.mjs', 'receiver.py'];
  assert.deepEqual(files, expected);
});

/** A receiver of the guide as a process, behind an endpoint that records the requests of Leat. */
interface Fixture {
  readonly front: Endpoint;
  readonly port: number;
  readonly stream: string;
  readonly type: string;
  /** The newest signing secret. */
  secret: string;
  /** Cuts the connection instead of responding to the first delivery of an event. */
  loseResponseTo(id: string): void;
  /** Restarts the process with this secret. */
  restart(secret: string): Promise<void>;
  /** The statuses of the responses to Leat; 0 for a closed connection. */
  readonly statuses: readonly number[];
  /** Returns how often the work of the event was done. */
  handled(id: string): number;
  close(): Promise<void>;
}

async function openFixture(file: string, source: string): Promise<Fixture> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-receiver-'));
  await writeFile(join(folder, file), source);
  await symlink(modules, join(folder, 'node_modules'));
  const port = await freePort();
  const type = freshType();
  const statuses: number[] = [];
  let lost = '';
  const front = await startEndpoint((response, arrival) => {
    const respond = (status: number): void => {
      statuses.push(status);
      if (status !== 0 && arrival.event.id !== lost) return void response.writeHead(status).end();
      lost = '';
      response.destroy();
    };
    void forward(port, arrival).then(respond, () => respond(0));
  });
  const { id: stream } = await createStream(leat, front.url, { types: [type] });
  const secret = await secretOf(stream);
  let process = await startReceiver(folder, file, port, secret);
  return {
    front,
    port,
    stream,
    type,
    secret,
    statuses,
    loseResponseTo: (id) => {
      lost = id;
    },
    restart: async (renewed) => {
      const former = process;
      await end(former.child, 'SIGKILL');
      process = await startReceiver(folder, file, port, renewed, former.output());
    },
    handled: (id) => process.output().split(`${type} ${id}\n`).length - 1,
    close: async () => {
      await end(process.child, 'SIGKILL');
      await front.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface Started {
  readonly child: ChildProcess;
  output(): string;
}

async function startReceiver(
  folder: string,
  file: string,
  port: number,
  secret: string,
  former = '',
): Promise<Started> {
  const program = file.endsWith('.py') ? 'python3' : process.execPath;
  const child = spawn(program, [file], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      WEBHOOK_SECRET: secret,
      PORT: String(port),
    },
  });
  endWithProcess(child);
  let output = former;
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  try {
    await waitFor(`${file} to listen`, async () => {
      assert.equal(child.exitCode, null, errors);
      return (await post(port, {}, '').catch(() => undefined)) !== undefined;
    });
  } catch (error) {
    await end(child, 'SIGKILL');
    throw error;
  }
  return { child, output: () => output };
}

async function secretOf(stream: string): Promise<string> {
  const path = `/api/v2/event-streams/${stream}/signing-secret`;
  return (await expectBody<{ secret: string }>(200, leat.send('GET', path))).secret;
}

/** Forwards a request of Leat to the receiver, byte by byte. */
async function forward(port: number, { headers, body }: Arrival): Promise<number> {
  const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'authorization'];
  const own = names.map((name) => [name, String(headers[name])] as const);
  return post(port, Object.fromEntries(own), body);
}

async function post(
  port: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/hook`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });
  await response.arrayBuffer();
  return response.status;
}

/** Returns a request as Leat would send it, built from the specification and not by our own code. */
function signed(
  fixture: Fixture,
  options: { readonly id?: string; readonly ageSeconds?: number; readonly secret?: string } = {},
): { id: string; headers: Record<string, string>; body: string } {
  const { id = freshId(), ageSeconds = 0, secret = fixture.secret } = options;
  const time = '2026-03-01T09:30:00.000Z';
  const body = JSON.stringify({
    id,
    type: fixture.type,
    time,
    data: { object: { name: 'Ada ☂' } },
  });
  const sent = String(Math.floor(Date.now() / 1000) - ageSeconds);
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${sent}.${body}`).digest('base64');
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': sent,
    'webhook-signature': `v1,${signature}`,
  };
  return { id, headers, body };
}

function freshId(): string {
  return `evt_${randomBytes(11).toString('hex')}`;
}

/** Waits for an event after which all earlier ones have been handled. */
async function settle(fixture: Fixture): Promise<void> {
  const id = await publish(leat, fixture.type);
  await waitFor('the work of another event', () => fixture.handled(id) > 0);
  // Printed work may not be committed yet; work with a response is.
  await waitFor('its response', () => fixture.statuses.length === fixture.front.arrivals.length);
}

const hasPython = spawnSync('python3', ['--version']).status === 0;

for (const { file, source } of receivers) {
  const skip = file.endsWith('.py') && !hasPython ? 'there is no python3 here' : false;
  test(`${file} of the guide repeats failed work`, { tags: ['long'], skip }, async (t) => {
    const [line = ''] = /^.*(?:console\.log|print)\(event.*$/m.exec(source) ?? [];
    const indent = ' '.repeat(line.length - line.trimStart().length);
    const failure = file.endsWith('.py')
      ? 'if globals().setdefault("fails", [1]): raise Exception(globals()["fails"].pop())'
      : 'if ((globalThis.fails ??= [1]).pop()) throw new Error("planted");';
    const fixture = await openFixture(file, source.replace(line, `${indent}${failure}\n${line}`));
    t.after(() => fixture.close());
    const id = await publish(leat, fixture.type);
    await waitFor('the work', () => fixture.handled(id) > 0);
    await settle(fixture);
    assert.equal(fixture.handled(id), 1);
    const queued = file === 'receiver-fastify.mjs';
    assert.deepEqual(fixture.statuses, queued ? [204, 204] : [500, 204, 204]);
  });

  describe(`${file} of the guide`, { skip }, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(file, source);
    });
    after(() => fixture.close());

    test(`${file} of the guide accepts a delivery of Leat`, async () => {
      const id = await publish(leat, fixture.type, { name: 'Ada ☂' });
      await waitFor('the work', () => fixture.handled(id) === 1);
      await settle(fixture);
      assert.equal(fixture.handled(id), 1);
      assert.equal(fixture.front.of(id).length, 1);
    });

    test(`${file} of the guide does the work once when its response is lost and Leat delivers again`, async () => {
      const id = freshId();
      fixture.loseResponseTo(id);
      const event = { id, type: fixture.type, data: {} };
      await expectBody(202, leat.send('POST', '/api/v2/events', event));
      await waitFor('the second delivery', () => fixture.front.of(id).length === 2);
      await settle(fixture);
      assert.equal(fixture.handled(id), 1);
      assert.ok(fixture.statuses.every((status) => status === 204));
      assert.deepEqual(await failuresOf(leat, fixture.stream), []);
    });

    test(`${file} of the guide does the work once when an event arrives twice at the same time`, async () => {
      const { id, headers, body } = signed(fixture);
      const statuses = await Promise.all([1, 2, 3].map(() => post(fixture.port, headers, body)));
      assert.deepEqual(statuses, [204, 204, 204]);
      await settle(fixture);
      assert.equal(fixture.handled(id), 1);
    });

    const strange = `whsec_${randomBytes(32).toString('base64')}`;
    const forgeries: [what: string, of: () => ReturnType<typeof signed>][] = [
      ['a signature of another secret', () => signed(fixture, { secret: strange })],
      ['a request of ten minutes ago', () => signed(fixture, { ageSeconds: 600 })],
      ['a request of in ten minutes', () => signed(fixture, { ageSeconds: -600 })],
      ['a body with one byte more', () => withBody((body) => `${body} `)],
      ['a body of another event', () => withBody((body) => body.replace('evt_', 'evt_x'))],
      ['no body', () => withBody(() => '')],
      ['no headers at all', () => ({ ...signed(fixture), headers: {} })],
      ['no signature', () => withHeader('webhook-signature', undefined)],
      ['an empty signature', () => withHeader('webhook-signature', '')],
      ['a cut signature', () => withHeader('webhook-signature', (text) => text.slice(0, -8))],
      [
        'a signature of another version',
        () => withHeader('webhook-signature', (text) => text.replace('v1,', 'v2,')),
      ],
      ['a signature of garbage', () => withHeader('webhook-signature', 'v1, v1,, ,v1 é v1,é=')],
      ['no timestamp', () => withHeader('webhook-timestamp', undefined)],
      ['a timestamp that is none', () => withHeader('webhook-timestamp', 'now')],
      ['another timestamp', () => withHeader('webhook-timestamp', (text) => `${Number(text) - 1}`)],
      ['another id', () => withHeader('webhook-id', freshId())],
      ['no id', () => withHeader('webhook-id', undefined)],
    ];
    function withBody(change: (body: string) => string): ReturnType<typeof signed> {
      const request = signed(fixture);
      return { ...request, body: change(request.body) };
    }
    function withHeader(
      name: string,
      value: string | undefined | ((former: string) => string),
    ): ReturnType<typeof signed> {
      const request = signed(fixture);
      const { [name]: former = '', ...headers } = request.headers;
      if (value === undefined) return { ...request, headers };
      const changed = typeof value === 'string' ? value : value(former);
      return { ...request, headers: { ...headers, [name]: changed } };
    }

    test(`${file} of the guide refuses a missing, wrong or old signature, and does nothing`, async () => {
      const ids: string[] = [];
      for (const [what, forgery] of forgeries) {
        const { id, headers, body } = forgery();
        const status = await post(fixture.port, headers, body);
        assert.ok(status >= 400 && status < 500, `${what}: ${status}`);
        ids.push(id);
      }
      await settle(fixture);
      for (const [index, id] of ids.entries()) {
        assert.equal(fixture.handled(id), 0, forgeries[index]?.[0] ?? '');
        const genuine = signed(fixture, { id });
        assert.equal(await post(fixture.port, genuine.headers, genuine.body), 204);
      }
      await settle(fixture);
      assert.deepEqual(ids.map(fixture.handled), Array(forgeries.length).fill(1));
    });

    test(`${file} of the guide accepts any of several signatures`, async () => {
      const { id, headers, body } = signed(fixture);
      const { 'webhook-signature': own = '' } = headers;
      const other = signed(fixture, { id, secret: strange }).headers['webhook-signature'];
      const mixed = `v1a,abc= ${other} ${own}`;
      const all = { ...headers, 'webhook-signature': mixed };
      assert.equal(await post(fixture.port, all, body), 204);
      await waitFor('the work', () => fixture.handled(id) === 1);
    });

    test(`${file} of the guide continues after a body that is too large and clients that disconnect`, async () => {
      const { headers, body } = signed(fixture);
      const large = await post(fixture.port, headers, body + ' '.repeat(1_100_000)).catch(
        () => 413,
      );
      assert.equal(large, 413, 'or cut off');
      for (let i = 0; i < 3; i++) {
        const socket = connect(fixture.port, '127.0.0.1');
        await once(socket, 'connect');
        socket.write('POST /hook HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n');
        socket.write('Content-Length: 100\r\n\r\n{"half');
        socket.resetAndDestroy();
      }
      await settle(fixture);
    });

    test(
      `${file} of the guide works through a rotation of the secret and a restart, and remembers events`,
      { tags: ['long'] },
      async () => {
        const former = await publish(leat, fixture.type);
        await waitFor('the work', () => fixture.handled(former) === 1);
        const path = `/api/v2/event-streams/${fixture.stream}/signing-secret/rotate`;
        fixture.secret = (
          await expectBody<{ secret: string }>(200, leat.send('POST', path))
        ).secret;

        const during = await publish(leat, fixture.type);
        await waitFor('the work with the former secret', () => fixture.handled(during) === 1);
        const [arrival] = fixture.front.of(during);
        assert.equal(String(arrival?.headers['webhook-signature']).split(' ').length, 2);

        await settle(fixture);
        await fixture.restart(fixture.secret);
        const later = await publish(leat, fixture.type);
        await waitFor('the work with the new secret', () => fixture.handled(later) === 1);

        for (const id of [former, during]) {
          const again = signed(fixture, { id });
          assert.equal(await post(fixture.port, again.headers, again.body), 204);
        }
        await settle(fixture);
        assert.deepEqual([former, during, later].map(fixture.handled), [1, 1, 1]);
        assert.deepEqual(await failuresOf(leat, fixture.stream), []);
      },
    );
  });
}

describe('the guide', () => {
  test('the guide shows a request with a valid signature', () => {
    const block = /```http\n([^]*?)```/.exec(guide)?.[1] ?? '';
    const [head = '', body = ''] = block.trimEnd().split('\n\n');
    const header = (name: string): string =>
      new RegExp(`^${name}: (.+)$`, 'm').exec(head)?.[1] ?? assert.fail(name);
    const secret = /"whsec_([^"]+)"/.exec(guide)?.[1] ?? assert.fail('no secret');
    const expected = createHmac('sha256', Buffer.from(secret, 'base64'))
      .update(`${header('webhook-id')}.${header('webhook-timestamp')}.${body}`)
      .digest('base64');
    assert.equal(header('webhook-signature'), `v1,${expected}`);
    assert.equal((JSON.parse(body) as { id: string }).id, header('webhook-id'));
  });

  test('the guide has a statement that ignores older changes', () => {
    const statement = /```sql\n([^]*?)```/.exec(guide)?.[1] ?? assert.fail('no statement');
    const db = new DatabaseSync(':memory:');
    db.exec('create table users (id text primary key, email text, changed_at text)');
    const apply = db.prepare(statement);
    const change = (email: string, time: string): void => void apply.run({ id: 'a', email, time });
    change('first@example.com', '2026-03-01T09:30:00.000Z');
    change('third@example.com', '2026-03-01T09:30:00.010Z');
    change('second@example.com', '2026-03-01T09:30:00.009Z');
    const { email } = db.prepare('select email from users').get() ?? {};
    assert.equal(email, 'third@example.com');
    db.close();
  });

  test('the guide is right about the SDK of CloudEvents: it accepts the body of a delivery', async (t) => {
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const type = freshType();
    const { id: stream } = await createStream(leat, endpoint.url, { types: [type] });
    const id = await publish(leat, type, { order_id: '42' });
    const { body } = await endpoint.arrival(1);
    const event = new CloudEvent<{ object: object }>(JSON.parse(body) as object);
    assert.ok(event.validate());
    assert.deepEqual([event.id, event.type, event['svcstream']], [id, type, stream]);
    assert.deepEqual(event.data, { object: { order_id: '42' } });
  });
});
