import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { isTest, publishingOf } from '../../src/console/event-copy.ts';
import { parseKeepingNumbers } from '../../src/console/request.ts';

const event = {
  id: 'evt_b8dLcukC7edhDQ7cn5d4gE',
  source: 'urn:leat:',
  specversion: '1.0',
  type: 'order.paid',
  time: '2026-03-01T09:30:00.971Z',
  data: { object: { note: "it's $HOME" } },
  svctenant: 'main',
} as const;

/** Returns the words that a shell passes to curl. */
function wordsOf(command: string): string[] {
  const script = `curl() { for word in "$@"; do printf '%s\\0' "$word"; done; }; TOKEN=abc; ${command}`;
  return execFileSync('sh', ['-c', script], { encoding: 'utf8' }).split('\0').slice(0, -1);
}

describe('publishing an event again', () => {
  test('has the type and data, and a new id', () => {
    const words = wordsOf(publishingOf(event, 'main', 'https://leat.example'));
    assert.equal(words[2], 'https://leat.example/api/v2/events');
    assert.deepEqual(JSON.parse(words.at(-1) ?? ''), { type: event.type, data: event.data });
  });

  test('numbers stay as they were sent', () => {
    const data = parseKeepingNumbers('{"n":12345678901234567890,"m":1.0}') as object;
    const words = wordsOf(publishingOf({ ...event, data }, 'main', 'https://leat.example'));
    assert.match(words.at(-1) ?? '', /"n":12345678901234567890,"m":1\.0/);
  });

  test('an event with further attributes is sent as a CloudEvent without those of Leat', () => {
    const more = { ...event, subject: 'o', tenant: 'x', svcpurpose: 'p' };
    const words = wordsOf(publishingOf(more, 'main', 'https://leat.example'));
    assert.ok(words.includes('Content-Type: application/cloudevents+json'));
    assert.deepEqual(JSON.parse(words.at(-1) ?? ''), {
      specversion: '1.0',
      id: 'evt_b8dLcukC7edhDQ7cn5d4gE-copy',
      source: 'urn:leat:',
      type: 'order.paid',
      subject: 'o',
      tenant: 'x',
      data: event.data,
    });
  });

  test('attributes of Leat have the prefix of the installation', () => {
    const { svctenant: tenant, ...rest } = event;
    const words = wordsOf(
      publishingOf({ ...rest, a0tenant: tenant } as never, 'main', 'https://l'),
    );
    assert.deepEqual(JSON.parse(words.at(-1) ?? ''), { type: event.type, data: event.data });
  });

  test('a test event says so', () => {
    assert.equal(isTest({ ...event, svcpurpose: 'test' } as never), true);
    assert.equal(isTest(event), false);
  });
});
