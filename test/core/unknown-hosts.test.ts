import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createUnknownHosts, shownHost, unknownHostMs } from '../../src/core/unknown-hosts.ts';

describe('hosts that are the domain of no tenant', () => {
  test('a host counts as seen for an hour, each once', () => {
    const hosts = createUnknownHosts();
    hosts.noteServed('b:1', 0);
    hosts.noteServed('a', 1);
    hosts.noteServed('a', 2);
    assert.deepEqual(hosts.seen(unknownHostMs - 1), { served: ['a', 'b:1'], refused: [] });
    assert.deepEqual(hosts.seen(unknownHostMs + 1), { served: ['a'], refused: [] });
  });

  test('100,000 invented hosts leave 20 of each kind, of 100 characters', () => {
    const hosts = createUnknownHosts();
    for (let n = 0; n < 100_000; n += 1) hosts.noteRefused(`${'x'.repeat(94)}${n}.example`, n);
    const { refused } = hosts.seen(100_000);
    assert.equal(refused.length, 20);
    for (const host of refused) assert.equal(host.length, 100);
  });

  test('refused hosts, which strangers choose, push out none that was served', () => {
    const hosts = createUnknownHosts();
    hosts.noteServed('leat:8080', 0);
    for (let n = 0; n < 1000; n += 1) hosts.noteRefused(`${n}.example`, 1);
    assert.deepEqual(hosts.seen(2).served, ['leat:8080']);
  });

  for (const [host, shown] of [
    ['leat.example.com:8080', 'leat.example.com:8080'],
    ['[::1]:8080', '[::1]:8080'],
    ['a\u001b[2Jb\nc"d\\e é', 'a?[2Jb?c?d?e??'],
    ['', '(none)'],
  ] as const) {
    test(`${JSON.stringify(host)} is shown as ${shown}`, () => {
      assert.equal(shownHost(host), shown);
    });
  }
});
