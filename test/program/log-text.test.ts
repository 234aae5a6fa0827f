import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTextLog, entryText } from '../../src/program/log-text.ts';
import { createManualClock } from '../helpers/clock.ts';

const time = Date.parse('2026-03-01T09:30:00.971Z');
const plain = (_colour: string, text: string): string => text;

function open() {
  const clock = createManualClock();
  let text = '';
  const log = createTextLog({ clock, write: (more) => (text += more), colour: plain });
  const fail = (stream: string, error: string): void =>
    log.write(
      JSON.stringify({
        level: 40,
        time,
        tenant: 1,
        tenantName: 'main',
        stream,
        error,
        msg: 'delivery failed',
      }),
    );
  return { clock, log, fail, text: () => text };
}

describe('the log as text', () => {
  test('entryText: escapes what a terminal might obey, and bounds long values', () => {
    const entry = {
      level: 30,
      time,
      msg: 'a\u001B[31m',
      error: '\u009B"x y',
      long: 'x'.repeat(300),
    };
    const text = entryText(entry, plain);
    assert.ok(!text.includes('\u001B') && !text.includes('\u009B'));
    assert.match(text, /^09:30:00Z {2}info {3}a\\u\{1b\}\[31m {2}/);
    assert.match(text, / long=x{200}…\n$/);
    assert.match(text, / error="\\\\u\{9b\}\\"x y" /);
  });

  test('entryText: shows the tenant by its name, without one by its number', () => {
    const entry = { level: 40, time, msg: 'm', tenant: 7, stream: 'est_1' };
    assert.equal(
      entryText({ ...entry, tenantName: 'main' }, plain),
      '09:30:00Z  warn   m  tenant=main stream=est_1\n',
    );
    assert.equal(entryText(entry, plain), '09:30:00Z  warn   m  tenant=7 stream=est_1\n');
    assert.equal(
      entryText({ level: 30, time }, plain),
      '09:30:00Z  info \n'.replace('info ', 'info '),
    );
  });

  test('entryText: shows the trace of an error, of a warning only its message', () => {
    const err = { type: 'Error', message: 'broken', stack: 'Error: broken\n    at f (a.ts:1:1)' };
    const bug = { level: 50, time, msg: 'm', err };
    assert.equal(entryText(bug, plain), '09:30:00Z  error  m  error=broken\n    at f (a.ts:1:1)\n');
    assert.equal(entryText({ ...bug, level: 40 }, plain), '09:30:00Z  warn   m  error=broken\n');
  });

  test('entryText: of an alert shows the sentence and the next command', () => {
    const alert = { alert: 'stream_disabled', next_command: 'leat streams enable crm' };
    const text = entryText({ level: 50, time, msg: 'crm was disabled', alert }, plain);
    assert.equal(text, '09:30:00Z  error  crm was disabled  next="leat streams enable crm"\n');
  });

  test('failed deliveries of a second become one line with the largest groups', async () => {
    const { clock, log, fail, text } = open();
    for (let count = 0; count < 1000; count++) fail('est_1', '503');
    for (const stream of ['est_2', 'est_2', 'est_3', 'est_4', 'est_5']) fail(stream, 'timeout');
    log.write(JSON.stringify({ level: 30, time, msg: 'other' }));
    assert.equal(text(), '09:30:00Z  info   other\n');
    for (const stream of ['est_1', 'est_1', 'est_2'])
      log.write(JSON.stringify({ level: 30, time, tenant: 2, stream, msg: 'open failure' }));
    await clock.advance(1000);
    assert.equal(
      text().split('\n')[2],
      '09:30:00Z  info   3 open failures  2 est_1 unknown ×2, 2 est_2 unknown ×1',
    );
    assert.equal(
      text().split('\n')[1],
      '09:30:00Z  warn   1005 deliveries failed  main est_1 503 ×1000, main est_2 timeout ×2, main est_3 timeout ×1, and 2 more',
    );
    fail('est_1', '410');
    await clock.advance(1000);
    assert.match(
      text().split('\n')[3] ?? '',
      / {2}delivery failed {2}tenant=main stream=est_1 error=410$/,
    );
  });

  test('failed deliveries that wait are written when the program ends', () => {
    const { log, fail, text } = open();
    log.flush();
    assert.equal(text(), '');
    fail('est_1', '503');
    log.flush();
    assert.match(text(), /delivery failed/);
  });
});
