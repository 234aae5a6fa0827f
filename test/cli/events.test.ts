import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createStream, freshType } from '../helpers/api-client.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/wait.ts';
import { openLoggedInShell, openServer } from './shell.ts';

describe('leat events publish', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat events publish: publishes one event with data from an option, a file or the standard input', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const type = freshType();
    await createStream(leat, endpoint.url, { types: [type] });
    await writeFile(join(shell.home, 'data.json'), '{"object": {"from": "file"}}');
    const words = ['events', 'publish', '--type', type, '--data'];
    const first = await shell.leat([...words, '{"object": {"big": 12345678901234567890}}']);
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stdout, /^Published evt_\w{22} at offset \S+\.\n$/);
    const second = await shell.run([...words, '@data.json', '--id', 'key', '--json']);
    const again = await shell.run([...words, '@data.json', '--id', 'key', '--json']);
    assert.equal(again.stdout, second.stdout.replace('}', ',"repeated":true}'));
    const repeated = await shell.run([...words, '@data.json', '--id', 'key']);
    assert.match(repeated.stdout, /^The log had evt_\w{22} at offset \S+ already\.\n$/);
    const other = await shell.run([...words, '{}', '--id', 'key']);
    assert.equal(other.code, 5);
    assert.match(
      other.stderr,
      /The log has an event with the id on property id, with another type/,
    );
    const line = JSON.stringify({ type, data: { object: { from: 'file' } }, id: 'key' });
    const lines = await shell.run(['events', 'publish'], { input: `${line}\n${line}\n` });
    assert.equal(lines.stdout, 'Published 2 events. The log had 2 of them already.\n');
    const wrong = await shell.run(['events', 'publish'], {
      input: `${line}\n${line.replace('file', 'elsewhere')}\n`,
    });
    assert.match(wrong.stderr, /on property 1\.id, [\s\S]*It is line 2 of the input\./);
    const input = '{"object": {"from": "stdin"}}';
    const third = await shell.leat([...words, '-', '--time', '2026-03-01T09:30:00Z'], { input });
    assert.equal(third.code, 0, third.stderr);
    await endpoint.arrival(3);
    const bodies = endpoint.arrivals.map(({ body }) => body).toSorted();
    assert.equal(bodies.length, 3);
    for (const part of ['12345678901234567890', '"from":"file"', '2026-03-01T09:30:00.000Z']) {
      assert.ok(
        bodies.some((body) => body.includes(part)),
        part,
      );
    }
  });

  test(
    'leat events publish: publishes the lines of a file in order, at most 1000 per request',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const type = freshType();
      await createStream(leat, endpoint.url, { types: [type] });
      const lines = Array.from({ length: 2300 }, (_, n) =>
        JSON.stringify({ type, data: { object: { n } } }),
      );
      await writeFile(join(shell.home, 'events.ndjson'), `${lines.join('\n')}\n`);
      const words = ['events', 'publish', '--file', 'events.ndjson'];
      const { code, stdout, stderr } = await shell.run(words);
      assert.deepEqual([code, stdout], [0, 'Published 2300 events.\n'], stderr);
      await endpoint.arrival(2300);
      const input = lines.slice(0, 2).join('\n');
      const json = await shell.run(['events', 'publish', '--json'], { input });
      assert.equal(json.stdout.match(/^\{"id":"evt_\w{22}","offset":"\S+"\}$/gm)?.length, 2);
      const dash = await shell.leat(['events', 'publish', '--file', '-'], { input });
      assert.deepEqual([dash.code, dash.stdout], [0, 'Published 2 events.\n']);
    },
  );

  test(
    'leat events publish: publishes the lines of a program that goes on writing',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const line = JSON.stringify({ type: freshType(), data: {} });
      const { child, stdout } = shell.start(['events', 'publish', '--json'], { isOpen: true });
      child.stdin?.write(`${line}\n`);
      await waitFor('a published line', () => stdout().includes('"offset"'));
      child.stdin?.write(`${line}\n{"type": "a.b"}\n`);
      await once(child, 'exit');
      assert.equal(child.exitCode, 1);
    },
  );

  test('leat events publish: reports the line of a bad event and how many were published before', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const good = JSON.stringify({ type: freshType(), data: {} });
    const lines = [...Array<string>(1001).fill(good), '', '{"type": "a.b"}'];
    const server = await shell.leat(['events', 'publish'], { input: lines.join('\n') });
    assert.equal(server.code, 1);
    assert.match(server.stderr, /^Payload validation error: .*data/);
    assert.match(
      server.stderr,
      /It is line 1003 of the input\.\n1000 events before it were published\.\n$/,
    );
    const local = await shell.leat(['events', 'publish'], { input: `${good}\nno json\n` });
    assert.equal(local.code, 1);
    assert.match(
      local.stderr,
      /^Line 2 of the input is not a JSON object; .*\n1 event before it was published\.\n$/,
    );
  });

  test('leat events publish: a file or the standard input may begin with a byte order mark, and UTF-16 is named', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const [file, wide] = [join(shell.home, 'bom.json'), join(shell.home, 'utf-16.json')];
    await writeFile(file, '\uFEFF{"object": {}}');
    await writeFile(wide, Buffer.from('\uFEFF{"object": {}}', 'utf16le'));
    const words = ['events', 'publish', '--type', freshType(), '--data'];
    const fromFile = await shell.leat([...words, `@${file}`]);
    assert.equal(fromFile.code, 0, fromFile.stderr);
    const piped = await shell.leat([...words, '-'], { input: '\uFEFF{"object": {}}' });
    assert.equal(piped.code, 0, piped.stderr);
    const refused = await shell.leat([...words, `@${wide}`]);
    assert.deepEqual(
      [refused.code, refused.stderr],
      [2, `--data: ${wide} is not UTF-8: convert it, for example with iconv.\n`],
    );
  });

  test('leat events publish: rejects options that do not go together, with code 2', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const cases: [string[], RegExp][] = [
      [['--data', '{}'], /No type: add --type/],
      [['--type', 'a.b', '--file', 'x'], /--type is for one event/],
      [['--type', 'a.b', '--data', '{'], /--data is not JSON/],
      [['--type', 'a.b', '--data', '@missing'], /missing cannot be read \(ENOENT\)/],
      [['--file', 'missing'], /--file: missing cannot be read \(ENOENT\)/],
    ];
    for (const [words, message] of cases) {
      const { code, stderr } = await shell.leat(['events', 'publish', ...words]);
      assert.equal(code, 2, stderr);
      assert.match(stderr, message);
    }
  });
});
