import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Log } from '../../src/core/log.ts';
import { logReport } from '../../src/program/delivery-log.ts';
import { attemptReport } from '../helpers/attempt-report.ts';

function createLog() {
  const entries: { level: string; fields: object; message: string }[] = [];
  const at = (level: string) => (fields: object, message: string) => {
    entries.push({ level, fields, message });
  };
  const log: Log = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  };
  return { log, entries };
}

const attempt = attemptReport({ attempt: 4, status: 503, durationMs: 3, sincePublishedMs: 5 });

test('a failure is logged as a warning without text of the receiver', () => {
  for (const [error, shown] of [
    ['503 - busy, your token is t0ps3cret', '503'],
    ['dns: secret.internal', 'dns'],
    ['timeout', 'timeout'],
  ] as const) {
    const { log, entries } = createLog();
    logReport(log, { ...attempt, result: 'failed', error });
    assert.equal(entries[0]?.level, 'warn');
    assert.equal((entries[0].fields as { error: string }).error, shown);
    assert.ok(!JSON.stringify(entries).includes('secret'), error);
  }
});

test('a delivered or retried attempt is logged at level debug', () => {
  const { log, entries } = createLog();
  logReport(log, { ...attempt, result: 'retry', error: '503 - busy' });
  logReport(log, { ...attempt, result: 'delivered', error: undefined });
  assert.deepEqual(
    entries.map(({ level }) => level),
    ['debug', 'debug'],
  );
});

test('a receiver that is down is logged as a warning, its return as information', () => {
  const { log, entries } = createLog();
  const about = { tenant: 1, stream: 'est_1' };
  logReport(log, { kind: 'receiver_down', ...about });
  logReport(log, { kind: 'receiver_up', ...about });
  assert.deepEqual(
    entries.map(({ level, fields }) => [level, fields]),
    [
      ['warn', about],
      ['info', about],
    ],
  );
});

test('a disabled stream is logged as an error that names the limit', () => {
  const { log, entries } = createLog();
  const health = { consecutive: 500, total: 700 };
  logReport(log, {
    kind: 'stream_disabled',
    tenant: 1,
    stream: 'est_1',
    health,
    reason: 'consecutive',
  });
  assert.equal(entries[0]?.level, 'error');
  assert.deepEqual(entries[0].fields, {
    tenant: 1,
    stream: 'est_1',
    reason: 'consecutive',
    ...health,
  });
});
