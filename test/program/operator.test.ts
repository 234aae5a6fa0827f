import assert from 'node:assert/strict';
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { socketBytesMax, socketLocationOf } from '../../src/operator/socket-location.ts';
import {
  makePlace,
  runLeat,
  secretKey,
  startLeat,
  type Place,
  type Running,
} from '../helpers/leat.ts';

/** The operator's commands with a running server on SQLite. */

describe("the operator's commands with a running server", () => {
  test('commands run in the server through its socket', async (t) => {
    const { place, leat, run } = await running(t);
    assert.match(await run('nodes'), /^NODE +STREAMS +LEASE.*\nleat +0 +\d+\.\d s.*\n$/);
    assert.match(await run('tenants', 'list'), /^main +localhost:\d+\n$/);
    assert.match(await run('tenants', 'create', 'two', 'two.test'), /secret {2}\S{43}\n$/);
    assert.match(await run('tenants', 'list'), /\ntwo +two\.test\n$/);
    assert.match(await run('tenants', 'bootstrap', 'two'), /secret {2}\S{43}\n/);
    const [kid = ''] = (await run('keys', 'list', '--tenant', 'two')).split(' ');
    assert.match(await run('keys', 'rotate', '--now', '--tenant', 'two'), /signs from now/);
    assert.match(await run('keys', 'revoke', '--tenant', 'two', kid), /is gone/);
    const again = await runLeat(['keys', 'revoke', kid], environment(place));
    assert.deepEqual(again, {
      code: 1,
      output: `No key is called "${kid}"; leat keys list shows them.\n`,
    });
    assert.equal((await leat.send('GET', '/readyz')).status, 200);
  });

  test('keys rotate --now: the running server publishes the new key immediately', async (t) => {
    const { leat, run } = await running(t);
    await run('keys', 'rotate', '--now');
    const response = await leat.send('GET', '/.well-known/jwks.json');
    const { keys } = (await response.json()) as { keys: { kid: string }[] };
    const listed = (await run('keys', 'list')).trim().split('\n');
    assert.deepEqual(
      new Set(keys.map(({ kid }) => kid)),
      new Set(listed.map((line) => line.split(' ')[0])),
    );
  });

  test('status fits into 80 columns, and prints JSON with --json', async (t) => {
    const { run } = await running(t);
    const text = await run('status');
    assert.ok(Math.max(...text.split('\n').map((line) => line.length)) <= 80, text);
    assert.match(text, /^TENANT +EVENTS +ABOUT +OK +FAILING +DISABLED +FAILURES +LAG$/m);
    const body = JSON.parse(await run('status', '--json')) as {
      nodes: object[];
      tenants: { name: string }[];
    };
    assert.equal(body.nodes.length, 1);
    assert.deepEqual(
      body.tenants.map(({ name }) => name),
      ['main'],
    );
  });

  test('commands open the store after the server has stopped', async (t) => {
    const { place, leat, run } = await running(t);
    assert.equal(await leat.stop(), 0);
    assert.ok(!existsSync(socketOf(place)), 'the stopped server removed its socket');
    assert.match(await run('tenants', 'list'), /^main/);
    assert.equal(await run('nodes'), 'No node runs.\n');
  });

  test('a socket of a killed server is ignored, and replaced by the next server', async (t) => {
    const { place, leat, run } = await running(t);
    await leat.kill();
    assert.ok(lstatSync(socketOf(place)).isSocket());
    assert.match(await run('tenants', 'list'), /^main/);
    const next = await startLeat(place);
    t.after(() => next.kill());
    assert.match(await run('nodes'), /^NODE/);
  });

  test('concurrent commands all succeed', async (t) => {
    const { run } = await running(t);
    const texts = await Promise.all(
      ['one', 'two', 'three'].map((name) => run('tenants', 'create', name, `${name}.test`)),
    );
    assert.ok(texts.every((text) => text.startsWith('Created')));
    assert.equal((await run('tenants', 'list')).trim().split('\n').length, 4);
  });
});

describe('the operator socket', () => {
  test('only its own user can open the socket', async (t) => {
    const { place } = await running(t);
    assert.equal(lstatSync(socketOf(place)).mode & 0o777, 0o600);
  });

  test('a socket path that is too long is replaced by one in a private folder', async (t) => {
    const place = await deepPlace(t);
    const leat = await startLeat(place);
    t.after(() => leat.kill());
    const { isTooLong, pointer } = socketLocationOf(place.file);
    assert.ok(isTooLong);
    assert.equal(lstatSync(pointer).mode & 0o777, 0o600);
    const listed = await runLeat(['tenants', 'list'], environment(place));
    assert.match(listed.output, /^main/);
    await leat.kill();
    const again = await startLeat(place);
    assert.equal(await again.stop(), 0);
    assert.ok(!existsSync(pointer));
  });

  for (const kind of ['file', 'symbolic link'] as const) {
    test(`a ${kind} at the path of the socket is not touched, and the server runs without a socket`, async (t) => {
      const place = await placeOf(t);
      const other = join(place.folder, 'other');
      await writeFile(other, 'precious');
      if (kind === 'file') await writeFile(socketOf(place), 'precious');
      else await symlink(other, socketOf(place));
      const leat = await startLeat(place);
      t.after(() => leat.kill());
      assert.match(leat.output(), /is in the way of the operator's socket/);
      const { code, output } = await runLeat(['tenants', 'list'], environment(place));
      assert.equal(code, 1);
      assert.match(output, /is not a socket: remove it and restart the server\.\n$/);
      assert.ok(existsSync(other));
    });
  }

  test('a command that gets an invalid response on the socket fails with one line', async (t) => {
    const place = await placeOf(t);
    mkdirSync(dirname(socketOf(place)), { recursive: true });
    const server = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nwhat?'));
    server.listen(socketOf(place));
    await once(server, 'listening');
    t.after(() => server.close());
    const { code, output } = await runLeat(['tenants', 'list'], environment(place));
    assert.equal(code, 1);
    assert.match(output, /^The server ended before the command did[^\n]+\n$/);
  });

  test('a store in memory has no socket', async (t) => {
    const place = await placeOf(t);
    const leat = await startLeat(place, { LEAT_STORE: 'sqlite::memory:' });
    t.after(() => leat.kill());
    assert.deepEqual(
      (await readdir(place.folder)).filter((name) => name.includes('sock')),
      [],
    );
  });
});

function socketOf(place: Place): string {
  return socketLocationOf(place.file).socket;
}

function environment(place: Place): Record<string, string> {
  return {
    LEAT_STORE: `sqlite:${place.file}`,
    LEAT_SECRET_KEY: secretKey.toString('base64'),
  };
}

async function placeOf(t: TestContext): Promise<Place> {
  const place = await makePlace();
  t.after(() => place.remove());
  return place;
}

/** Creates a place in a folder whose path alone is too long for a socket. */
async function deepPlace(t: TestContext): Promise<Place> {
  const { folder } = await placeOf(t);
  const deep = join(folder, 'd'.repeat(socketBytesMax));
  mkdirSync(deep);
  return { folder: deep, file: join(deep, 'leat.db'), remove: () => rm(deep, { recursive: true }) };
}

async function running(
  t: TestContext,
): Promise<{ place: Place; leat: Running; run(...words: string[]): Promise<string> }> {
  const place = await placeOf(t);
  const leat = await startLeat(place);
  t.after(() => leat.kill());
  return {
    place,
    leat,
    run: async (...words) => {
      const { code, output } = await runLeat(words, environment(place));
      assert.equal(code, 0, output);
      return output;
    },
  };
}
