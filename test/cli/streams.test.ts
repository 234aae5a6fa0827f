import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { trusted } from '../helpers/certificates.ts';
import { publish, type StreamBody } from '../helpers/api-client.ts';
import { createStreamNamed, openLoggedInShell, openServer } from './shell.ts';

describe('leat streams', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat streams: creates, lists, shows, changes and deletes a stream', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const token = join(shell.home, 'token');
    await writeFile(token, 'secret-of-the-hook\n');
    const words = ['--endpoint', 'https://example.com/hook', '--bearer-file', token];
    const options = ['--name', 'crm', '--events', 'user.created,order.paid', '--json'];
    const made = await shell.leat(['streams', 'create', ...options, ...words]);
    assert.equal(made.code, 0, made.stderr);
    const stream = JSON.parse(made.stdout) as StreamBody;
    assert.deepEqual(stream.subscriptions, [
      { event_type: 'user.created' },
      { event_type: 'order.paid' },
    ]);
    const listed = await shell.leat(['streams', 'list']);
    assert.match(
      listed.stdout,
      new RegExp(`^ID .*\n(?:.*\n)*${stream.id}  crm +ok +example\\.com`),
    );
    const shown = await shell.leat(['streams', 'show', 'crm']);
    assert.match(shown.stdout, /^Id +est_.*\nName +crm\nStatus +enabled\n/);
    assert.match(shown.stdout, /^Authorization +bearer$/m);
    const exact = await shell.leat(['streams', 'show', stream.id, '--json']);
    const direct = await leat.send('GET', `/api/v2/event-streams/${stream.id}`);
    assert.equal(exact.stdout, `${await direct.text()}\n`);
    const changed = await shell.leat(['streams', 'update', 'crm', '--name', 'crm-2', '--json']);
    assert.equal((JSON.parse(changed.stdout) as StreamBody).name, 'crm-2');
    const refused = await shell.leat(['streams', 'delete', 'crm-2']);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /There is no terminal to ask for confirmation: add --yes/);
    const gone = await shell.leat(['streams', 'delete', 'crm-2', '--yes']);
    assert.deepEqual([gone.code, gone.stdout], [0, `Deleted ${stream.id}.\n`]);
    assert.equal((await shell.leat(['streams', 'delete', stream.id, '--yes'])).code, 0);
    assert.equal((await shell.leat(['streams', 'show', stream.id])).code, 4);
  });

  test('leat streams: tries a filter, and the present one of a stream', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const token = join(shell.home, 'token');
    await writeFile(token, 'secret-of-the-hook\n');
    const events = join(shell.home, 'events.json');
    await writeFile(events, '[{"data": {"n": 2}}, {"data": {"n": 3}}]');
    const words = ['--endpoint', 'https://example.com/hook', '--bearer-file', token];
    const made = await shell.leat(['streams', 'create', '--name', 'picky', ...words]);
    assert.equal(made.code, 0, made.stderr);
    const tried = (...options: string[]) =>
      shell.leat(['streams', 'filter-test', 'picky', '--events', `@${events}`, ...options]);
    const one = await tried('--filter', '{"data.n": {"$gte": 3}}');
    assert.equal(one.stdout, '1 of 2 events match.\n{"data":{"n":3}}\n');
    const none = await tried();
    assert.equal(none.code, 2);
    assert.match(none.stderr, /The stream has no filter: add --filter/);
    await shell.leat(['streams', 'update', 'picky', '--delivery', '{"filter": {"data.n": 2}}']);
    assert.equal((await tried()).stdout, '1 of 2 events match.\n{"data":{"n":2}}\n');
  });

  test('leat streams: accepts each authorization method, with secrets from files only', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const fileOf = (name: string) => join(shell.home, name);
    const secret = fileOf('secret');
    await writeFile(secret, 'a-secret');
    const create = (...words: string[]) =>
      shell.leat(['streams', 'create', '--endpoint', 'https://example.com/', '--json', ...words]);
    const authorization = (text: string) =>
      (JSON.parse(text) as StreamBody).destination.configuration.webhook_authorization;
    const basic = await create('--basic-user', 'leat', '--basic-password-file', secret);
    assert.deepEqual(authorization(basic.stdout), { method: 'basic', username: 'leat' });
    const header = await create('--header', 'X-Key', '--header-value-file', secret);
    assert.deepEqual(authorization(header.stdout), {
      method: 'custom_header',
      header_key: 'X-Key',
    });
    const client = ['--oauth-client', 'leat', '--oauth-secret-file', secret];
    const endpoint = ['--token-endpoint', 'https://login.example.com/token'];
    const tokens = await create(...endpoint, ...client, '--oauth-scope', 'a b');
    assert.deepEqual(authorization(tokens.stdout), {
      method: 'oauth2_client_credentials',
      token_endpoint: 'https://login.example.com/token',
      client_id: 'leat',
      scope: 'a b',
    });
    await writeFile(fileOf('cert.pem'), trusted.cert);
    await writeFile(fileOf('key.pem'), trusted.key);
    const files = [
      '--certificate-file',
      fileOf('cert.pem'),
      '--certificate-key-file',
      fileOf('key.pem'),
    ];
    const certified = await create('--bearer-file', secret, ...files);
    const { id, destination } = JSON.parse(certified.stdout) as StreamBody;
    assert.deepEqual(Object.keys(destination.configuration).at(-1), 'client_certificate');
    const seen = await shell.leat(['streams', 'show', id]);
    assert.match(seen.stdout, /Certificate +expires 2126-10-28/);
    const removed = await shell.leat(['streams', 'update', id, '--remove-certificate', '--json']);
    assert.equal(removed.code, 0, removed.stderr);
    assert.doesNotMatch(removed.stdout, /client_certificate/);
    const piped = await shell.leat(
      ['streams', 'create', '--endpoint', 'https://example.com/', '--bearer-file', '-'],
      { input: 'from-stdin' },
    );
    assert.equal(piped.code, 0, piped.stderr);
    const wrong: [string[], RegExp][] = [
      [[], /No authorization: add --bearer-file/],
      [['--basic-user', 'a'], /--basic-user needs --basic-password-file/],
      [['--header-value-file', secret], /--header-value-file needs --header/],
      [
        ['--bearer-file', secret, '--basic-user', 'a', '--basic-password-file', secret],
        /Choose one of/,
      ],
      [[...endpoint, ...client, '--bearer-file', secret], /Choose one of/],
      [endpoint, /--oauth-client is missing: access tokens need/],
      [client, /--token-endpoint is missing: access tokens need/],
      [[...endpoint, ...client.slice(0, 2)], /--oauth-secret-file is missing/],
      [['--oauth-audience', 'a'], /--token-endpoint is missing/],
      [['--bearer-file', secret, ...files.slice(0, 2)], /--certificate-file needs --cert/],
      [['--bearer-file', 'missing'], /--bearer-file: missing cannot be read \(ENOENT\)/],
    ];
    for (const [words, message] of wrong) {
      const { code, stderr } = await create(...words);
      assert.equal(code, 2, stderr);
      assert.match(stderr, message);
    }
  });

  test('leat streams: options of delivery are set, shown, changed one by one and removed', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const token = join(shell.home, 'token');
    await writeFile(token, 'secret-of-the-hook');
    const delivery = '{"retry":"hours","per_second":20}';
    const words = ['--endpoint', 'https://example.com/hook', '--bearer-file', token];
    const made = await shell.leat([
      'streams',
      'create',
      '--name',
      'slow',
      ...words,
      '--delivery',
      delivery,
    ]);
    assert.equal(made.code, 0, made.stderr);
    assert.ok(made.stdout.includes(`\nDelivery       ${delivery}\n`), made.stdout);
    const update = (json: string) =>
      shell.leat(['streams', 'update', 'slow', '--delivery', json, '--json']);
    const other = await update('{"concurrency": 2}');
    assert.equal(other.code, 0, other.stderr);
    const replaced = JSON.parse(other.stdout) as StreamBody;
    assert.deepEqual(replaced.delivery, { retry: 'hours', per_second: 20, concurrency: 2 });
    assert.match(
      other.stderr,
      /Delivery before: .*per_second.*\n.*Delivery after: .*per_second.*concurrency/,
    );
    const fewer = JSON.parse(
      (await update('{"retry": null, "per_second": null}')).stdout,
    ) as object;
    assert.deepEqual((fewer as StreamBody).delivery, { concurrency: 2 });
    const refused = await update('{"retry": "weeks"}');
    assert.deepEqual(
      [refused.code, /delivery\.retry/.test(refused.stderr)],
      [1, true],
      refused.stderr,
    );
    const rounded = await update('{"filter": {"data.id": 1546130668394913822}}');
    assert.deepEqual(
      [rounded.code, /delivery\.filter\.data\.id/.test(rounded.stderr)],
      [1, true],
      rounded.stderr,
    );
    for (const json of [
      '{"per_second": 1, "per_second": 2}',
      '{"filter": {"a": 1, "\\u0061": 2}}',
    ]) {
      const { code, stderr } = await update(json);
      assert.deepEqual([code, /is repeated: write it once/.test(stderr)], [2, true], stderr);
    }
    const deep = await update(`{"filter": {"a": ${'['.repeat(200)}${']'.repeat(200)}}}`);
    assert.deepEqual(
      [deep.code, /deeper than 100 levels/.test(deep.stderr)],
      [1, true],
      deep.stderr,
    );
    const createdWith = async (...more: string[]) => {
      const { stdout } = await shell.leat(['streams', 'create', ...words, '--json', ...more]);
      return (JSON.parse(stdout) as StreamBody).delivery;
    };
    assert.deepEqual(await createdWith(), { retry: 'hours' });
    assert.deepEqual(await createdWith('--delivery', '{"per_second": 2}'), {
      retry: 'hours',
      per_second: 2,
    });
    assert.deepEqual(await createdWith('--delivery', '{"retry": "quick"}'), { retry: 'quick' });
    assert.equal(await createdWith('--delivery', 'null'), undefined);
    for (const json of ['{"retry"', '1', '1.0', '[]', '"hours"']) {
      const { code, stderr } = await update(json);
      assert.deepEqual([code, /A JSON object in quotes, or null/.test(stderr)], [2, true], stderr);
    }
    const removed = JSON.parse((await update('null')).stdout) as StreamBody;
    assert.equal(removed.delivery, undefined);
    assert.doesNotMatch((await shell.leat(['streams', 'show', 'slow'])).stdout, /^Delivery/m);
  });

  test('leat streams: update does not remove a filter or an order unless told so', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const id = await createStreamNamed(shell, 'ordered');
    const rules = { filter: { 'data.n': 2 }, order_by: '/data/n' };
    const update = async (json: string, ...words: string[]) => {
      const options = ['--delivery', json, '--json', ...words];
      return shell.leat(['streams', 'update', 'ordered', ...options]);
    };
    assert.equal((await update(JSON.stringify(rules))).code, 0);
    const kept = JSON.parse((await update('{"retry": "hours"}')).stdout) as StreamBody;
    assert.deepEqual(kept.delivery, { retry: 'hours', ...rules });
    const wider = [
      '{}',
      '{"$or": [{"data.n": 2}, {"$and": [{}, {}]}]}',
      '{"data.n": {"$nin": []}}',
      '{"specversion": "1.0"}',
    ];
    for (const json of [
      'null',
      '{"filter": null}',
      '{"order_by": null}',
      ...wider.map((filter) => `{"filter": ${filter}, "retry": "days"}`),
    ]) {
      const { code, stderr } = await update(json);
      assert.deepEqual([code, /add --yes/.test(stderr)], [2, true], stderr);
      assert.match(stderr, /Delivery before: .*filter.*\n.*Delivery after: /);
    }
    const shown = await leat.send('GET', `/api/v2/event-streams/${id}`);
    assert.deepEqual(((await shown.json()) as StreamBody).delivery, kept.delivery);
    const gone = JSON.parse((await update('{"filter": null}', '--yes')).stdout) as StreamBody;
    assert.deepEqual(gone.delivery, { retry: 'hours', order_by: '/data/n' });
    for (const filter of [{ 'data.n': 3 }, {}]) {
      const changed = await update(
        JSON.stringify({ filter }),
        ...('data.n' in filter ? [] : ['--yes']),
      );
      assert.deepEqual((JSON.parse(changed.stdout) as StreamBody).delivery, {
        ...gone.delivery,
        filter,
      });
    }
    assert.equal((await update('{"filter": null}')).code, 0, 'every event has matched it');
    assert.equal(
      (JSON.parse((await update('null', '--yes')).stdout) as StreamBody).delivery,
      undefined,
    );
  });

  test('leat streams: a new client secret leaves scope and audience of the tokens', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const secret = join(shell.home, 'secret');
    await writeFile(secret, 'a-secret');
    const client = ['--oauth-client', 'leat', '--oauth-secret-file', secret];
    const words = ['--token-endpoint', 'https://login.example.com/token', ...client, '--json'];
    const scoped = ['--oauth-scope', 'a b', '--oauth-audience', 'crm'];
    const made = await shell.leat(
      ['streams', 'create', '--name', 'tokens', '--endpoint', 'https://example.com/'].concat(
        words,
        scoped,
      ),
    );
    assert.equal(made.code, 0, made.stderr);
    const rotated = async (...more: string[]) => {
      const update = ['streams', 'update', 'tokens', ...words, ...more];
      const { code, stdout, stderr } = await shell.leat(update);
      assert.equal(code, 0, stderr);
      const { scope, audience } = (JSON.parse(stdout) as StreamBody).destination.configuration
        .webhook_authorization as { scope?: string; audience?: string };
      return { scope, audience };
    };
    assert.deepEqual(await rotated(), { scope: 'a b', audience: 'crm' });
    assert.deepEqual(await rotated('--oauth-scope', ''), { scope: undefined, audience: 'crm' });
  });

  test('leat streams: update keeps the secret of an unchanged authorization, and reports when it is needed again', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const id = await createStreamNamed(shell, 'kept');
    const same = await shell.leat(['streams', 'update', id, '--endpoint', 'https://example.com/']);
    assert.equal(same.code, 0, same.stderr);
    const other = await shell.leat([
      'streams',
      'update',
      id,
      '--endpoint',
      'https://example.com/b',
    ]);
    assert.equal(other.code, 1);
    assert.match(other.stderr, /Missing required property: token/);
    const nothing = await shell.leat(['streams', 'update', id]);
    assert.deepEqual([nothing.code, nothing.stderr.startsWith('Nothing to change')], [2, true]);
  });

  test('leat streams: enable reports how many events of the disabled time are not sent', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const id = await createStreamNamed(shell, 'switched');
    const off = await shell.leat(['streams', 'disable', 'switched']);
    assert.match(off.stdout, /^Status +disabled$/m);
    await publish(leat, 'switched.event');
    const on = await shell.leat(['streams', 'enable', id]);
    assert.match(on.stdout, /^Status +enabled$/m);
    assert.match(
      on.stderr,
      /^1 event published while it was disabled will not be sent. This sends them:\nleat replay start est_\w+ --from \S+ --until \S+\n$/,
    );
    await shell.leat(['streams', 'disable', 'switched']);
    const held = await shell.leat(['streams', 'enable', id, '--resume', 'held']);
    assert.deepEqual([held.code, held.stderr], [0, '']);
    const wrong = await shell.leat(['streams', 'enable', id, '--resume', 'later']);
    assert.equal(wrong.code, 2);
  });

  test('leat streams: secret prints the signing secret and creates a new one', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const id = await createStreamNamed(shell, 'signed');
    const first = await shell.leat(['streams', 'secret', id]);
    assert.match(first.stdout, /^whsec_[A-Za-z0-9+/]{43}=\n$/);
    const second = await shell.leat(['streams', 'secret', id, '--rotate', '--json']);
    const { secret, previous_expires_at: expires } = JSON.parse(second.stdout) as {
      secret: string;
      previous_expires_at: string;
    };
    assert.notEqual(`${secret}\n`, first.stdout);
    assert.match(expires, /^\d{4}-/);
    const pending = await shell.leat(['streams', 'secret', id, '--rotate']);
    assert.equal(pending.code, 5);
    assert.match(pending.stderr, new RegExp(`is valid until ${expires}`));
    assert.match(pending.stderr, /leat streams secret <stream> --rotate --force/);
    const forcing = ['streams', 'secret', id, '--rotate', '--force', '--overlap', '0', '--json'];
    const forced = JSON.parse((await shell.leat(forcing)).stdout) as object;
    assert.deepEqual(Object.keys(forced), ['secret', 'created_at']);
    const unrotated = await shell.leat(['streams', 'secret', id, '--force']);
    assert.equal(unrotated.code, 2);
    assert.match(unrotated.stderr, /add --rotate/);
  });
});
