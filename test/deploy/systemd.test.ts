import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { services } from '../../src/program/services.ts';
import { freePort, leatProgram, secretKey } from '../helpers/leat.ts';
import { configOf, drainSecondsMax, read, skipWithout } from './fixture.ts';

const unit = read('deploy/systemd/leat.service');
const manifest = JSON.parse(read('package.json')) as { readonly bin: Record<string, string> };
const skip = skipWithout('systemd-analyze', '--version');
const folder = mkdtempSync(join(tmpdir(), 'leat-systemd-'));
const file = join(folder, 'leat.service');
// `verify` wants a program that exists, and Leat is not installed where the tests run.
writeFileSync(file, unit.replace('/usr/local/bin/leat', process.execPath));
after(() => rmSync(folder, { recursive: true }));

describe('the systemd unit', () => {
  test('systemd-analyze verify reports nothing', { skip }, () => {
    const { status, stderr } = analyze('verify');
    // It also reads the units that this one names, which belong to the machine.
    const ofUnit = stderr.split('\n').filter((line) => line.includes('leat.service'));
    assert.deepEqual({ status, ofUnit }, { status: 0, ofUnit: [] }, stderr);
  });

  test('systemd-analyze security rates the exposure at 1.5 of 10 or less', { skip }, () => {
    const { status, stdout } = analyze(
      'security',
      '--offline=true',
      '--no-pager',
      '--threshold=15',
    );
    assert.equal(status, 0, stdout);
  });

  test('the program is that of the package, and its word is a service', () => {
    const [program = '', word = '', ...rest] = valueOf('ExecStart').split(' ');
    assert.ok(manifest.bin[program.split('/').at(-1) ?? '']);
    assert.ok(services.has(word) && rest.length === 0);
  });

  test('the settings are accepted, and the store is in the state directory', () => {
    const pairs = valueOf('Environment')
      .split(' ')
      .map((text) => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]);
    const { store } = configOf(Object.fromEntries(pairs) as Record<string, string>);
    assert.ok(store.engine === 'sqlite');
    assert.equal(store.file, `/var/lib/${valueOf('StateDirectory')}/leat.db`);
  });

  test('the time to stop is longer than a drain, and the signal reaches the first process only', () => {
    assert.ok(Number(valueOf('TimeoutStopSec')) > drainSecondsMax);
    assert.equal(valueOf('KillMode'), 'mixed');
  });

  test('a start that cannot reach the database ends at once, and systemd repeats it for ever', async () => {
    const port = await freePort();
    const { status, signal } = spawnSync(process.execPath, [leatProgram, 'serve'], {
      cwd: folder,
      env: {
        HOME: folder,
        LEAT_STORE: `postgres://leat:x@127.0.0.1:${port}/leat`,
        LEAT_SECRET_KEY: secretKey.toString('base64'),
      },
    });
    assert.deepEqual({ status, signal }, { status: 1, signal: null });
    assert.equal(valueOf('Restart'), 'on-failure');
    assert.equal(valueOf('StartLimitIntervalSec'), '0');
  });

  test('V8 may write machine code', () => {
    assert.equal(valueOf('MemoryDenyWriteExecute'), 'no');
  });
});

function analyze(...words: readonly string[]) {
  return spawnSync('systemd-analyze', [...words, file], { encoding: 'utf8' });
}

function valueOf(name: string): string {
  const value = new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1];
  assert.ok(value !== undefined, name);
  return value;
}
